"""Read tasks and recommended estimators from recommendations.toml, for pages, chart and tests."""

import tomllib
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "recommendations.toml"


def read_tasks():
    """Return a dict with the task of each key."""
    tasks = tomllib.loads(SOURCE.read_text(encoding="utf-8"))["task"]
    return {task["key"]: task for task in tasks}


def estimator_of(task):
    """Return the estimator of a task as Markdown, with additional arguments of fit."""
    shown = task.get("shown", f"`{task['code']}`")
    return f"{shown}, `fit(X, y, {task['fit']})`" if "fit" in task else shown


def use_of(task):
    """Return the estimator of a task and the method that gives the result, as Markdown."""
    return f"{estimator_of(task)}, `{task['call']}`" if "call" in task else estimator_of(task)


def markdown_row(task):
    """Return the row of a task for a Markdown table."""
    return f"| {task['need']} | {use_of(task)} | {task['found']} |"
