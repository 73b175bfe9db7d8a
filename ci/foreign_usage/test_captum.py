"""captum: attributions of a network's outputs to its inputs."""

import pytest
import torch
from captum.attr import DeepLift, FeatureAblation, GradientShap, InputXGradient, IntegratedGradients, Saliency


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.relu, self.second = torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.second(self.relu(self.first(x)))


@pytest.mark.parametrize("method", [IntegratedGradients, DeepLift, Saliency, InputXGradient, FeatureAblation])
def test_attributions(method):
    torch.manual_seed(0)
    net, x = Net(), torch.randn(5, 4)
    scores = method(net).attribute(x, target=1)
    assert scores.shape == x.shape
    if method in (IntegratedGradients, DeepLift):
        change = net(x)[:, 1] - net(torch.zeros_like(x))[:, 1]
        assert torch.allclose(scores.sum(1).float(), change, atol=5e-2)


def test_shap():
    net, x = Net(), torch.randn(3, 4)
    assert GradientShap(net).attribute(x, baselines=torch.zeros(10, 4), target=0).shape == x.shape
