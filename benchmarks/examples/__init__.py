"""Short programs to read and to change, each with a picture in out/.

python -m benchmarks.examples.burgers          a network solves a differential equation
python -m benchmarks.examples.learned_rate     learning rates are learned through unrolled steps of SGD
python -m benchmarks.examples.potential        energies and forces of copper, and its phonons by a Hessian
"""
