"""The directive `recommendations` shows a table of tasks and their recommended estimators.

Arguments are keys of tasks in recommendations.toml, in the order to show. Without arguments, all
tasks are shown. In Markdown pages, put the directive into `eval-rst`.
"""

from docutils import nodes
from docutils.statemachine import StringList
from recommended_tasks import SOURCE, read_tasks, use_of
from sphinx.util.docutils import SphinxDirective


class Recommendations(SphinxDirective):
    """Show a table with tasks, estimators, metrics and measured results."""

    optional_arguments = 100

    def run(self):
        self.env.note_dependency(str(SOURCE))
        tasks = read_tasks()
        if unknown := sorted(set(self.arguments) - set(tasks)):
            raise self.error(f"tasks must be among {', '.join(tasks)}; got {', '.join(unknown)}")
        lines = [".. list-table::", "   :header-rows: 1", "   :widths: 24 40 36", ""]
        lines += ["   * - You need", "     - Use, and measure with", "     - What we measured"]
        for task in (tasks[key] for key in self.arguments or tasks):
            # reStructuredText writes code with two backticks, Markdown with one.
            need, use, found = (
                text.replace("`", "``") for text in (task["need"], use_of(task), task["found"])
            )
            lines += [
                f"   * - {need} (:doc:`more </{task['page']}>`)",
                f"     - {use}",
                "",
                f"       ``{task['metric']}``",
                f"     - {found}",
            ]
        node = nodes.container()
        self.state.nested_parse(StringList(lines, source=str(SOURCE)), 0, node)
        return node.children


def setup(app):
    app.add_directive("recommendations", Recommendations)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
