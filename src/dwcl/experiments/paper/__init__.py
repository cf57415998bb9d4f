"""The paper as data: the numbers of its tables, and what it takes to make each item anew."""
