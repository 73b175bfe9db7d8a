"""Tools around modules: gradients clipped, parameters as one vector, modules called with other parameters."""
