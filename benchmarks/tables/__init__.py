"""Tables, methods and jobs of top_of_the_table.py, and its page."""
