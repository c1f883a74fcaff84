"""Answer one SQL question to the lake, without changing anything.

======= =====================================================================================
duck    the question answered by DuckDB, which sees only the tables of the lake
opening tables opened by PyIceberg, from every kind of catalog that it supports
scan    the columns and the rows that DuckDB requests from a table
======= =====================================================================================
"""
