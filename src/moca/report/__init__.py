"""Tables, figures and the HTML page."""
