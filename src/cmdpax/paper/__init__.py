"""The paper's figures and tables, one short file each: what is run, how it is selected, how it is
drawn.
"""
