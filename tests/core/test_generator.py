"""GeneratorLike: `ag.Generator` is what the layers below `random` expect of a generator."""

import inspect

import autograd_gpu as ag
from autograd_gpu.core.generator import GeneratorLike


def test_a_generator_has_what_the_protocol_names():
    for name, method in vars(GeneratorLike).items():
        if inspect.isfunction(method) and name != "__init__" and not name.startswith("__"):
            theirs = list(inspect.signature(getattr(ag.Generator, name)).parameters)
            assert theirs == list(inspect.signature(method).parameters), name
    assert "device" in GeneratorLike.__annotations__


def test_a_place_can_be_returned_to(device):
    generator = ag.Generator(device).manual_seed(3)
    ag.rand(5, generator=generator, device=device)
    place = generator.place()
    first = ag.rand(4, generator=generator, device=device).tolist()
    generator.return_to(place)
    assert ag.rand(4, generator=generator, device=device).tolist() == first
    assert ag.rand(4, generator=generator.at(place), device=device).tolist() == first
