"""The demo: plain replay against MOCA on split digits, with a report."""

from pathlib import Path

from moca import api
from moca.cores import cores
from moca.measures.analyse import analyse
from moca.recipes import load_recipe
from moca.report.comparison import Comparison
from moca.report.exhibit import analyses
from moca.report.page import write_report


def demo(out: Path, seeds: int) -> tuple[Comparison, Path]:
    """Run the comparison of the `digits` recipe and write its report."""
    recipe = load_recipe("digits")
    comparison = api.compare(**recipe["settings"], seeds=seeds, out=out, jobs=cores(), progress=True)
    plane = api.compare(**recipe["plane"], record="weights", out=out / "plane")
    for result in plane.results:
        analyse(result)
    features = [exhibit for setting in plane.settings for exhibit in analyses(setting, ["feature_plane"])]
    return comparison, write_report(comparison, features, recipe["about"]["text"])
