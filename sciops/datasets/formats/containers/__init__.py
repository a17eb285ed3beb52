"""What files hold, whatever it means: tables of contents and lazy arrays of every kind of file."""
