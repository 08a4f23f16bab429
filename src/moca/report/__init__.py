"""Comparisons of finished runs: tables, figures and the HTML report."""
