from __future__ import annotations


def test_a_tool_says_where_it_is_listed_and_who_may_call_it(visitor, gateway):
    page = visitor(viewport={"width": 390, "height": 844})
    page.goto("/console/tools/desk:read")
    row = page.locator("[aria-label='Where it is listed'] tbody tr")
    assert "the mode meta_only does not pick it" in row.inner_text()
    assert "pml keys create" in page.locator("main").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_score_is_opened_with_the_keyboard(visitor, gateway):
    page = visitor()
    page.goto("/console/tools?query=read")
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    page.locator("ul.parts li").first.wait_for()
    assert "word 'read'" in page.locator("ul.parts").first.inner_text()


def test_whoever_is_no_operator_is_not_told_of_keys(visitor, gateway):
    page = visitor(token="agent-token")
    page.goto("/console/tools/desk:read")
    assert page.locator("h2:has-text('Who may call it')").count() == 0


def test_a_tool_is_switched_off_for_a_running_gateway_and_on_again(visitor, gateway):
    page = visitor()
    row = page.locator("[aria-label='Where it is listed'] tbody tr").first
    page.goto("/console/tools/desk:markup")
    for how, told in (("off", "[servers.desk] tools"), ("on", "the mode")):
        page.click(f"button:has-text('Switch it {how}')")
        page.locator(".notice[role=status]").wait_for()
        for _ in range(300):  # the gateway looks at its file every few seconds
            page.goto("/console/tools/desk:markup")
            if row.count() and told in row.inner_text():
                break
            page.wait_for_timeout(200)
        assert told in row.inner_text()
