"""The guide to plans, for models: what clients get as ``pml://guide/workflows``. A test runs its examples."""

from __future__ import annotations

DESCRIPTION = "How to write plans for execute_workflow: references, code, when, for_each, retry, undoing, rehearsals."
QUESTIONS = (
    "how to write a workflow",
    "workflow guide syntax reference example help",
    "write a plan with a condition",
    "run steps in a loop for each item",
    "retry a step",
    "undo a step when the plan fails",
    "plan language documentation",
    "use the result of one tool in another tool",
    "chain several tool calls in a workflow",
)
TEXT = """# Plans for execute_workflow

A plan is a list of tasks. Those that need nothing of one another run at once. `{{id}}` in arguments is the result of
the task `id` (there is no `.result` in between), `{{id.items[0].name}}` a part of it; either makes the task wait.

```json
{"workflow": {"tasks": [
  {"id": "bugs", "tool": "tracker:search", "arguments": {"query": "is:open"}},
  {"id": "mail", "tool": "mail:send", "arguments": {"to": "ada@example.com", "body": "See {{bugs.items[0].title}}"}}]}}
```

A string that is only a reference keeps the type of what it finds. `\\{{` is plain text. `{{result:ID.path}}` is a part
of a result that was too large to be answered and is stored as ID.

## Code

`{{ }}` is not filled in within code. Results are variables, by what stands in `depends_on`; `inputs` gives more. The
code is the body of a function in `python`, `javascript` or `typescript`, and can call tools:
`await tools.tracker.search({query: "x"})`, in Python `await tools.tracker.search(query="x")`.

```json
{"workflow": {"tasks": [
  {"id": "bugs", "tool": "tracker:search", "arguments": {"query": "is:open"}},
  {"id": "n", "type": "code_execution", "language": "python", "depends_on": ["bugs"],
   "code": "return len(bugs['items'])"}]}}
```

## What a task can say

| member | means |
|---|---|
| `depends_on` | ids of tasks that must have ended well first |
| `when` | a JMESPath condition over results: ids without braces, texts in '…', numbers in `…` |
| `for_each` | an array, or a reference to one: once for each, as `{{item}}` and `{{index}}` |
| `retry` | `{"attempts": 3, "delay_s": 1}` |
| `timeout_s` | longest time of one attempt [s] |
| `on_error` | `fail`, `continue` (others get null) or `skip` (what needs it is skipped) |
| `compensate` | a task that undoes this one when the plan fails later |
| `inputs` | variables of code and capabilities |
| `select` | a JMESPath expression: what of its result is answered; references have all of it |
| `approve` | `true`: a human looks first |

```json
{"workflow": {"timeout_s": 60, "tasks": [
  {"id": "bugs", "tool": "tracker:search", "arguments": {"query": "is:open"}, "retry": {"attempts": 3, "delay_s": 1}},
  {"id": "mark", "tool": "tracker:label", "when": "bugs.total > `0` && bugs.state == 'open'",
   "for_each": "{{bugs.items}}", "arguments": {"number": "{{item.number}}", "label": "triage"},
   "on_error": "continue", "timeout_s": 10,
   "compensate": {"tool": "tracker:unlabel", "arguments": {"number": "{{item.number}}"}}}]}}
```

Other types of task: `{"type": "capability", "capability_id": …}`, and `{"type": "workflow", "tasks": […]}` inside.

## What is answered

The status of every task, and the results of the last ones: those that no other task needed. `return` beside `tasks`
names others, `"all"` every one. `select` beside `tasks` is a JMESPath expression over all results by id, and answers
that alone. The history has everything.

```json
{"workflow": {"select": "{count: length(bugs.items), first: bugs.items[0].title}", "tasks": [
  {"id": "bugs", "tool": "tracker:search", "arguments": {"query": "is:open"}}]}}
```

## Before it runs

`"dry_run": true` beside `workflow` rehearses: nothing reaches a server, and `preflight` tells what is wrong, what would
change and who would be asked. Use it before anything that writes. Send the same with its `plan_digest` instead of
`dry_run` to run exactly that. A plan that is surely wrong is refused before its first task, with all its mistakes.

`"async": true` answers with an execution_id at once. A plan that waits for a human goes on with `continue_workflow`.
"""
