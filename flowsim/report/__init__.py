"""Figures, tables and the report page: the only room that draws."""
