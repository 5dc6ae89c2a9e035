"""Resources, prompts, and the completion of a prompt's argument."""

from __future__ import annotations

import re

from fixture import PNG, Context, compact, embedded, prompt, says
from mcp import MCPError, types
from mcp.types import GetPromptRequestParams, GetPromptResult

RESOURCES = [
    types.Resource(uri="test://static-text", name="static-text", description="A text.", mime_type="text/plain"),
    types.Resource(uri="test://static-binary", name="static-binary", description="An image.", mime_type="image/png"),
    types.Resource(
        uri="test://watched-resource", name="watched-resource", description="To subscribe to.", mime_type="text/plain"
    ),
]
TEMPLATES = [
    types.ResourceTemplate(
        uri_template="test://template/{id}/data",
        name="template",
        description="Data of an id.",
        mime_type="application/json",
    )
]
_TEMPLATED = re.compile(r"test://template/([^/]+)/data")
_TEXTS = {
    "test://static-text": "This is the content of the static text resource.",
    "test://watched-resource": "This is the content of the watched resource.",
}


def read(uri: str) -> types.ReadResourceResult:
    """What is in a resource."""
    content: types.TextResourceContents | types.BlobResourceContents
    if uri in _TEXTS:
        content = types.TextResourceContents(uri=uri, mime_type="text/plain", text=_TEXTS[uri])
    elif uri == "test://static-binary":
        content = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    elif templated := _TEMPLATED.fullmatch(uri):
        id = templated[1]
        data = compact({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
        content = types.TextResourceContents(uri=uri, mime_type="application/json", text=data)
    else:
        raise MCPError(types.INVALID_PARAMS, f"Resource not found: {uri}", {"uri": uri})
    return types.ReadResourceResult(contents=[content])


def complete(params: types.CompleteRequestParams) -> types.CompleteResult:
    """Values that begin as the argument does."""
    known = ["test", "testing", "paris", "park", "party"]
    values = [value for value in known if value.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


@prompt("A prompt of one text.")
async def test_simple_prompt(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
    return says(types.TextContent(text="This is a simple prompt for testing."))


def argument(params: GetPromptRequestParams, name: str) -> str:
    """A required argument."""
    value = (params.arguments or {}).get(name)
    if value is None:
        raise MCPError(types.INVALID_PARAMS, f"{params.name}: the argument {name} is required")
    return value


@prompt("A prompt with its arguments in it.", arg1="First test argument", arg2="Second test argument")
async def test_prompt_with_arguments(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
    first, second = argument(params, "arg1"), argument(params, "arg2")
    return says(types.TextContent(text=f"Prompt with arguments: arg1='{first}', arg2='{second}'"))


@prompt("A prompt with a resource in it.", resourceUri="URI of the resource to embed")
async def test_prompt_with_embedded_resource(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
    resource = embedded(argument(params, "resourceUri"), "text/plain", "Embedded resource content for testing.")
    return says(resource, types.TextContent(text="Please process the embedded resource above."))


@prompt("A prompt with an image in it.")
async def test_prompt_with_image(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
    image = types.ImageContent(data=PNG, mime_type="image/png")
    return says(image, types.TextContent(text="Please analyze the image above."))


PROMPTS = [
    test_simple_prompt,
    test_prompt_with_arguments,
    test_prompt_with_embedded_resource,
    test_prompt_with_image,
]
