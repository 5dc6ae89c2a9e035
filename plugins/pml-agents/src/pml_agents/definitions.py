"""The tools, as clients see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .settings import Agent

NUMBER: Mapping[str, Any] = {"type": ["number", "null"]}
COUNT: Mapping[str, Any] = {"type": ["integer", "null"]}
PARALLEL: Mapping[str, Any] = {
    "type": "boolean",
    "default": False,
    "description": "Run beside what the agent does already, instead of waiting for its turn.",
}
CONTEXT: Mapping[str, Any] = {"type": "string", "description": "Background that the agent should know, as text."}
NUMBERS: Mapping[str, Any] = {
    "cost_usd": NUMBER,
    "tokens_in": COUNT,
    "tokens_out": COUNT,
    "context_used": COUNT,
    "context_max": COUNT,
}

CHAT_WITH_AGENT: Mapping[str, Any] = {
    "name": "chat_with_agent",
    "title": "Chat with an agent",
    "description": (
        "Give an agent a task and get its answer. An agent does one thing at a time; requests wait their turn unless "
        "parallel is true. With async true the answer is an execution_id at once: poll get_execution_result with it. "
        "The agents are the tools of the server 'agents'."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "agent_name": {"type": "string", "description": "Which agent, by its name."},
            "message": {"type": "string", "minLength": 1, "description": "What to do, as to a person."},
            "context": CONTEXT,
            "parallel": PARALLEL,
            "async": {
                "type": "boolean",
                "default": False,
                "description": "Answer with an execution_id at once instead of waiting for the agent.",
            },
        },
        "required": ["agent_name", "message"],
        "additionalProperties": False,
    },
    "outputSchema": {
        "type": "object",
        "properties": {
            "agent_name": {"type": "string"},
            "execution_id": {"type": "string"},
            "status": {"enum": ["pending", "success", "failed"]},
            "response": {"type": ["string", "null"]},
            "error": {"type": ["string", "null"]},
            "duration_seconds": NUMBER,
            **NUMBERS,
        },
        "required": ["execution_id", "status"],
    },
    "annotations": {"title": "Chat with an agent", "openWorldHint": True},
}

CANCEL_EXECUTION: Mapping[str, Any] = {
    "name": "cancel_execution",
    "title": "Cancel an execution",
    "description": (
        "Stop an execution that is pending or running, such as one that chat_with_agent or execute_workflow began with "
        "async true. What it did so far is not undone."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {"execution_id": {"type": "string", "description": "As it was answered when it began."}},
        "required": ["execution_id"],
        "additionalProperties": False,
    },
    "outputSchema": {
        "type": "object",
        "properties": {
            "execution_id": {"type": "string"},
            "cancelled": {"type": "boolean", "description": "False when it had ended before."},
            "status": {"type": "string", "description": "What it is now, as far as is known."},
        },
        "required": ["execution_id", "cancelled", "status"],
    },
    "annotations": {"title": "Cancel an execution", "destructiveHint": True, "idempotentHint": True},
}


def agent_tool(name: str, agent: Agent) -> dict[str, Any]:
    """The tool that an agent is."""
    about = agent.description or f"The agent {name}."
    annotations = {"readOnlyHint": True} if agent.read_only else {}
    return {
        "name": name,
        "title": f"Agent {name}",
        "description": f"{about} An agent: give it a task in words and get its answer.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "message": {"type": "string", "minLength": 1, "description": "What to do, as to a person."},
                "context": CONTEXT,
                "parallel": PARALLEL,
            },
            "required": ["message"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "agent_name": {"type": "string"},
                "response": {"type": "string"},
                **NUMBERS,
                "model": {"type": ["string", "null"]},
                "remarks": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["agent_name", "response"],
        },
        "annotations": {"title": f"Agent {name}", **annotations},
    }
