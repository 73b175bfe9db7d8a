"""REINFORCE balances a pole (Williams, 1992), with a cart-pole of its own."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical


class CartPole:
    """A pole on a cart that is pushed left or right; a fallen pole is put up again, at a price."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, 4)
        return self.state.astype(np.float32)

    def step(self, action):
        x, v, theta, omega = self.state
        force = 10.0 if action == 1 else -10.0
        sin, cos = np.sin(theta), np.cos(theta)
        push = (force + 0.05 * omega**2 * sin) / 1.1
        alpha = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        a = push - 0.05 * alpha * cos / 1.1
        self.state = np.array([x + 0.02 * v, v + 0.02 * a, theta + 0.02 * omega, omega + 0.02 * alpha])
        fallen = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21
        if fallen:
            self.reset()
        return self.state.astype(np.float32), -10.0 if fallen else 1.0


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 64)
        self.affine2 = nn.Linear(64, 2)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        return F.softmax(self.affine2(F.relu(self.affine1(x))), dim=1)


def draw(distribution, rng):
    """A sample by NumPy's generator."""
    cumulative = distribution.probs.detach().cpu().numpy().cumsum(-1)
    drawn = (rng.random((len(cumulative), 1)) > cumulative[:, :-1]).sum(-1)
    return torch.from_numpy(drawn).to(distribution.probs.device)


def select_action(policy, state, rng, device):
    probs = policy(torch.from_numpy(state).float().unsqueeze(0).to(device))
    m = Categorical(probs)
    action = draw(m, rng)
    policy.saved_log_probs.append(m.log_prob(action))
    return action.item()


def finish_episode(policy, optimizer, gamma=0.98):
    R, returns = 0, []
    for r in policy.rewards[::-1]:
        R = r + gamma * R
        returns.insert(0, R)
    returns = torch.tensor(returns, device=policy.saved_log_probs[0].device)
    returns = (returns - returns.mean()) / (returns.std() + np.finfo(np.float32).eps.item())
    policy_loss = [-log_prob * R for log_prob, R in zip(policy.saved_log_probs, returns, strict=True)]
    optimizer.zero_grad()
    policy_loss = torch.cat(policy_loss).sum()
    policy_loss.backward()
    norm = nn.utils.clip_grad_norm_(policy.parameters(), 50.0)
    optimizer.step()
    del policy.rewards[:]
    del policy.saved_log_probs[:]
    return norm.item()


def build():
    return Policy()


def main(steps=200, state=None, device="cpu", horizon=50):
    policy = build()
    if state is not None:
        policy.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    policy.to(device)
    optimizer = optim.Adam(policy.parameters(), lr=1e-2)
    env, rng = CartPole(seed=8), np.random.default_rng(9)
    for _ in range(steps):
        observation, total = env.reset(), 0.0
        for _ in range(horizon):
            observation, reward = env.step(select_action(policy, observation, rng, device))
            policy.rewards.append(reward)
            total += reward
        yield finish_episode(policy, optimizer), total


if __name__ == "__main__":
    for i_episode, (norm, total) in enumerate(main()):
        if i_episode % 10 == 0:
            print(f"Episode {i_episode}\tGradient: {norm:.2f}\tReward: {total:.2f}")
