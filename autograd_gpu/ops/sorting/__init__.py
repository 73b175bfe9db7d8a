"""Order: sorting, ranks and quantiles, distinct elements, search, histograms."""
