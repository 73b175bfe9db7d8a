"""The largest and smallest eigenvalues of a loss's Hessian during training, by Lanczos and Hessian-vector products."""

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def hessian_vector_product(loss_fn, params, vector):
    grads = torch.autograd.grad(loss_fn(), params, create_graph=True)
    flat = torch.cat([g.reshape(-1) for g in grads])
    product = torch.autograd.grad(flat @ vector, params)
    return torch.cat([h.contiguous().view(-1) for h in product])


def lanczos(matvec, start, iterations):
    """Ritz values, ascending; the basis is orthogonalised in full."""
    basis = torch.zeros(iterations, start.numel(), dtype=start.dtype, device=start.device)
    alpha, beta = torch.zeros(iterations, dtype=start.dtype), torch.zeros(iterations - 1, dtype=start.dtype)
    v = start / start.norm()
    for k in range(iterations):
        basis[k] = v
        w = matvec(v)
        alpha[k] = torch.dot(w, v).item()
        for _ in range(2):
            w -= basis[: k + 1].T @ (basis[: k + 1] @ w)
        if k < iterations - 1:
            beta[k] = torch.linalg.norm(w).item()
            v = w / beta[k].item()
    t = torch.diag(alpha) + torch.diag(beta, 1) + torch.diag(beta, -1)
    return torch.linalg.eigvalsh(t)


class Classifier(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(10, width), nn.Softplus(), nn.Linear(width, width), nn.Softplus())
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        return self.head(self.features(x))


def build():
    return Classifier().to(torch.float64)


def main(steps=50, state=None, device="cpu", iterations=12):
    rng = np.random.default_rng(20)
    x = torch.from_numpy(rng.normal(size=(200, 10))).to(device)
    y = torch.from_numpy((rng.normal(size=(10, 4)).T @ x.cpu().numpy().T).argmax(0)).to(device)
    model = build()
    if state is not None:
        model.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    model.to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    start = torch.from_numpy(rng.normal(size=sum(p.numel() for p in params))).to(device)
    optimizer = torch.optim.SGD(params, lr=0.5, momentum=0.5, nesterov=True)

    def loss_fn():
        return nn.functional.cross_entropy(model(x), y)

    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_fn()
        loss.backward()
        optimizer.step()
        ritz = lanczos(lambda v: hessian_vector_product(loss_fn, params, v), start, iterations)
        yield loss.item(), ritz[-1].item(), ritz[0].item()
    with torch.no_grad():  # how flat is it here? a random direction
        weights = parameters_to_vector(params)
        vector_to_parameters(weights + 0.1 * start / start.norm(), params)
        print(f"loss {loss.item():.4f}, a tenth away {loss_fn():.4f}")
        vector_to_parameters(weights, params)


if __name__ == "__main__":
    for step, (loss, largest, smallest) in enumerate(main()):
        if step % 10 == 0:
            print(f"{step}: loss {loss:.4f}, eigenvalues {smallest:.4f} ... {largest:.4f}")
