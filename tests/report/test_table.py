# ruff: noqa: RUF001
import csv
import io
import math
import re
import shutil
import subprocess

import pytest
from rich.console import Console

from moca.report import tables
from moca.report.page import latex_tables
from moca.report.spread import Spread
from moca.report.table import UNKNOWN, Cell, Table
from moca.report.tables import any_scale
from moca.settings import NONE, Label, Named
from tests.report.made_results import comparison, result

TABLE = Table(
    "summary",
    ("Method", "Final accuracy\N{NO-BREAK SPACE}↑", "Gain"),
    [
        (Cell("er_ace"), Cell("71.25", "± 1.50"), Cell()),
        (Cell("er_ace+wap"), Cell("73.00", "± 0.50"), Cell("\N{MINUS SIGN}1.75", "± 0.25", mark=True)),
    ],
    "50 % of it",
    "digits, 5 tasks",
)


def test_csv_has_numbers_that_programs_read():
    rows = list(csv.DictReader(io.StringIO(TABLE.csv())))
    assert rows[0] == {
        "Method": "er_ace",
        "Final accuracy": "71.25",
        "Final accuracy ±": "1.50",
        "Gain": "",
        "Gain ±": "",
    }
    assert float(rows[1]["Gain"]) == -1.75 and float(rows[1]["Gain ±"]) == 0.25


def test_thousands_are_for_people_only():
    rate = Cell("11,747", bare="11747")
    made = Table("t", ("a", "b", "c"), [(Cell("er"), rate, Cell("100,100"))])
    assert made.csv().splitlines()[1] == 'er,11747,"100,100"'
    assert "11,747" in made.markdown() and "11,747" in made.latex()


@pytest.mark.parametrize(
    ("mean", "std", "shown"),
    [
        (84.004, math.nan, "84.00"),
        (0.061864, 0.0107, "0.06186 ± 0.01070"),
        (-1.8e-16, math.nan, "−1.8e−16"),
        (-1.8e-16, 0.02, "0.00000 ± 0.02000"),
        (0.0, math.nan, "0.000"),
        (1234.5, 12.3, "1234 ± 12"),
    ],
)
def test_numbers_of_any_scale_stay_short(mean, std, shown):
    assert any_scale(Spread(mean, std)).whole == shown


def test_markdown():
    assert TABLE.markdown().splitlines() == [
        "| Method | Final accuracy ↑ | Gain |",
        "| --- | ---: | ---: |",
        "| er\\_ace | 71.25 ± 1.50 | – |",
        "| er\\_ace+wap | 73.00 ± 0.50 | −1.75 ± 0.25\\* |",
    ]


def test_latex():
    made = TABLE.latex()
    assert r"er\_ace & 71.25 $\pm$ 1.50 & -- \\" in made
    assert r"er\_ace+wap & 73.00 $\pm$ 0.50 & $-$1.75 $\pm$ 0.25* \\" in made
    assert r"\begin{tabular}{lrr}" in made and r"\caption{50 \% of it}" in made
    assert r"\label{tab:summary-digits-5-tasks}" in made


ER, HALF = Named("er"), Named("gaussian", ("lambda=0.5",))


@pytest.mark.parametrize(
    ("label", "written", "shown"),
    [
        (Label(ER), "er", "ER"),
        (Label(Named("er_ace"), HALF, ("lr=0.1",)), "er_ace+gaussian:lambda=0.5 lr=0.1",
         "ER-ACE + Gaussian (λ=0.5, lr=0.1)"),
        (Label(NONE, HALF), "+gaussian:lambda=0.5", "Gaussian (λ=0.5)"),
        (Label(NONE, others=("lr=0.1",)), "lr=0.1", "without perturbation (lr=0.1)"),
        (Label(Named("derpp", ("adjust=auto",)), Named("vt"), ("memory=20:per=class",)),
         "derpp:adjust=auto+vt memory=20:per=class", "DER++ + VT (adjust=auto, memory=20:per=class)"),
        (Label(Named("joint")), "joint", "Joint training"),
        (Label(Named("mine.Best", ("alpha=2",)), Named("wap")), "mine.Best:alpha=2+wap", "Best + WAP (alpha=2)"),
        (Label(ER, Named("nothing")), "er+nothing", "er+nothing"),
    ],
)  # fmt: skip
def test_methods_are_called_as_in_papers(label, written, shown):
    assert (str(label), label.in_print) == (written, shown)


def test_in_latex_the_best_of_a_column_is_bold(tmp_path):
    joint = result(tmp_path, [[0.1] * 3, [0.9] * 3], learner="joint")
    runs = {"er": [0.5, 0.6], "er+wap": [0.6, 0.7], "derpp": [0.6, 0.7], "joint": [joint]}
    made = tables.summary(comparison(tmp_path, runs).settings[0], [None] * 4, with_p=True)
    places = {title.rstrip(" \N{NO-BREAK SPACE}↑↓"): place for place, title in enumerate(made.head)}

    def bold(title):
        return [row[0].text for row in made.rows if row[places[title]].best]

    assert bold("Final accuracy") == ["er+wap", "derpp"], "joint training, an upper bound, does not compete"
    assert bold("Forgetting") == ["er+wap", "derpp"] and bold("Seconds") == bold("FWT") == []
    latex = made.latex()
    assert r"ER + WAP & 2 & \textbf{65.00} $\pm$ 7.07 & +10.00 $\pm$ 0.00 & -- &" in latex
    assert r"DER++ & 2 & \textbf{65.00}" in latex and r"Joint training & 1 & 90.00 &" in latex
    assert "better. The best number of a column is bold; joint training, an upper bound, does not compete.}" in latex
    sizes = {
        f"{learner} memory={size}": [result(tmp_path, accuracy, learner=learner, memory=size)]
        for learner, size, accuracy in (("er", 20, 0.3), ("derpp", 20, 0.2), ("er", 90, 0.6), ("derpp", 90, 0.7))
    }
    made = tables.summary(comparison(tmp_path, sizes).settings[0], [None] * 4)
    assert bold("Final accuracy") == ["er memory=20", "derpp memory=90"], "with each memory"
    assert "better. The best number of a column is bold for each memory.}" in made.latex()
    alone = tables.summary(comparison(tmp_path, {"er": [0.5]}).settings[0], [None])
    assert "bold" not in alone.latex() and "bold" not in made.caption, "which the page shows, without bold numbers"


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="there is no pdflatex")
def test_latex_compiles(tmp_path):
    runs = {"er": [0.5, 0.6], "er+wap:lambda=0.5": [0.6, 0.7], r"_a\b{c}$^~#%&<λ±−": [0.6, 0.7]}
    body = latex_tables(comparison(tmp_path, runs).settings)
    packages = "\\documentclass{article}\n\\usepackage[utf8]{inputenc}\n\\usepackage{booktabs}\n"
    (tmp_path / "t.tex").write_text(f"{packages}\\begin{{document}}\n{body}\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_columns_that_do_not_fit_a_page_in_latex_continue_below():
    head = ("Method", *(f"A rather long title {number}" for number in range(9)))
    made = Table("t", head, [(Cell("er"), *(Cell(f"{number}.00", "± 0.50") for number in range(9)))]).latex()
    forms = re.findall(r"\\begin{tabular}{(.*)}", made)
    assert forms == ["lrrrr", "lrrrr", "lr"] and made.count("er & ") == 3
    assert all(made.count(title) == 1 for title in head[1:])


def test_nothing_of_a_name_is_read_as_something_else():
    evil = r"\input{/etc/passwd} $x$ | <b> & # ~ ^ `"
    made = Table("t", ("a|b",), [(Cell(evil),)])
    body = made.latex().splitlines()[7]
    assert body == (
        r"\textbackslash{}input\{/etc/passwd\} \$x\$ | \textless{}b\textgreater{} \& \# \textasciitilde{} "
        r"\textasciicircum{} ` \\"
    )
    assert made.markdown().splitlines()[2] == r"| \\input{/etc/passwd} $x$ \| \<b\> & # ~ ^ \` |"


def test_a_table_without_rows():
    assert Table("t", ("a", "b"), []).csv() == "a,b\n"
    assert UNKNOWN not in Table("t", ("a",), []).latex()


def test_what_is_printed_of_a_comparison_leaves_names_with_options_whole_in_80_columns(tmp_path):
    long = "er_ace+gaussian:lambda=0.5"
    terminal = Console(width=80, color_system=None)
    with terminal.capture() as shown:
        terminal.print(comparison(tmp_path, {"er_ace": [0.4448, 0.2], long: [0.4514, 0.5]}))
    assert any(line.startswith(f" {long} ") for line in shown.get().splitlines())
