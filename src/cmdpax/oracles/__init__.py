"""How the AL subproblem is improved. An oracle has `start`, `advance`, `subproblem` and `policy`;
see `solve.Oracle`.
"""
