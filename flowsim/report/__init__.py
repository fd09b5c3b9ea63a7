"""Figures and tables: what leaves the house, on the right."""

from flowsim.report import figures as figures
from flowsim.report.canvas import new_figure as new_figure
from flowsim.report.page import report_page as report_page
from flowsim.report.saving import save_figure as save_figure
from flowsim.report.style import curve_style as curve_style
from flowsim.report.style import figure_style as figure_style
from flowsim.report.tables import csv_table as csv_table
from flowsim.report.tables import markdown_table as markdown_table
from flowsim.report.tables import save_table as save_table
