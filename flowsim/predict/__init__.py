"""Both stages predicted from the data and the initial weights."""
