"""The tour: an MLP learns handwritten digits, then a network is differentiated twice."""
