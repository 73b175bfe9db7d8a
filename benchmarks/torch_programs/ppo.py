"""PPO swings a pendulum: clipped objective, generalised advantages, minibatches (Schulman et al., 2017)."""

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Normal


class Pendulums:
    """Several pendulums that are pushed at the joint, in NumPy; observations are (cos, sin, speed)."""

    def __init__(self, count, seed):
        self.rng = np.random.default_rng(seed)
        self.theta = self.rng.uniform(-np.pi, np.pi, count)
        self.omega = self.rng.uniform(-1, 1, count)

    def observe(self):
        return np.stack([np.cos(self.theta), np.sin(self.theta), self.omega / 8], 1).astype(np.float32)

    def step(self, torque):
        torque = np.clip(torque, -2, 2)
        angle = (self.theta + np.pi) % (2 * np.pi) - np.pi
        reward = -(angle**2 + 0.1 * self.omega**2 + 0.001 * torque**2)
        self.omega = np.clip(self.omega + 0.05 * (15 * np.sin(self.theta) + 3 * torque), -8, 8)
        self.theta = self.theta + 0.05 * self.omega
        return self.observe(), (reward / 8).astype(np.float32)


def layer_init(layer, std=2**0.5, bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self, observations=3, actions=1, width=64):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(observations, width)), nn.Tanh(),
            layer_init(nn.Linear(width, width)), nn.Tanh(), layer_init(nn.Linear(width, 1), std=1.0),
        )  # fmt: skip
        self.actor_mean = nn.Sequential(
            layer_init(nn.Linear(observations, width)), nn.Tanh(),
            layer_init(nn.Linear(width, width)), nn.Tanh(), layer_init(nn.Linear(width, actions), std=0.01),
        )  # fmt: skip
        self.actor_logstd = nn.Parameter(torch.zeros(1, actions))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None, noise=None):
        action_mean = self.actor_mean(x)
        action_std = torch.exp(self.actor_logstd.expand_as(action_mean))
        probs = Normal(action_mean, action_std)
        if action is None:
            action = probs.mean + probs.stddev * noise
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)


@torch.no_grad()
def collect(agent, env, rng, horizon, device):
    """Observations, actions, log probabilities, rewards and values, one row per time."""
    rows = []
    for _ in range(horizon):
        obs = torch.from_numpy(env.observe()).to(device)
        noise = torch.from_numpy(rng.normal(size=(len(obs), 1)).astype(np.float32)).to(device)
        action, logprob, _, value = agent.get_action_and_value(obs, noise=noise)
        _, reward = env.step(action.cpu().numpy()[:, 0])
        rows.append((obs, action, logprob, torch.tensor(reward).to(device), value.flatten()))
    last = agent.get_value(torch.from_numpy(env.observe()).to(device)).flatten()
    return [torch.stack(column) for column in zip(*rows, strict=True)], last


def advantages_of(rewards, values, last, gamma=0.95, lam=0.9):
    advantages, following = torch.zeros_like(rewards), 0
    for t in reversed(range(len(rewards))):
        next_value = last if t == len(rewards) - 1 else values[t + 1]
        delta = rewards[t] + gamma * next_value - values[t]
        advantages[t] = following = delta + gamma * lam * following
    return advantages


def build():
    return Agent()


def main(steps=100, state=None, device="cpu", envs=8, horizon=16, epochs=2, minibatches=2, clip=0.2):
    agent = build()
    if state is not None:
        agent.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    agent.to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: max(0.1, 1 - update / steps))
    env, rng = Pendulums(envs, seed=10), np.random.default_rng(11)
    for _ in range(steps):
        (obs, actions, logprobs, rewards, values), last = collect(agent, env, rng, horizon, device)
        advantages = advantages_of(rewards, values, last)
        returns = advantages + values
        b_obs, b_actions = obs.reshape(-1, 3), actions.reshape((-1, 1))
        b_logprobs, b_advantages, b_returns = (x.reshape(-1) for x in (logprobs, advantages, returns))
        for _ in range(epochs):
            for mb_inds in np.split(rng.permutation(envs * horizon), minibatches):
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds], b_actions[mb_inds])
                ratio = (newlogprob - b_logprobs[mb_inds]).exp()
                mb_adv = b_advantages[mb_inds]
                mb_adv = (mb_adv - mb_adv.mean()) / (mb_adv.std() + 1e-8)
                pg_loss = torch.max(-mb_adv * ratio, -mb_adv * torch.clamp(ratio, 1 - clip, 1 + clip)).mean()
                v_loss = 0.5 * ((newvalue.view(-1) - b_returns[mb_inds]) ** 2).mean()
                loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
                optimizer.zero_grad()
                loss.backward()
                norm = nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        scheduler.step()
        yield loss.item(), v_loss.item(), norm.item(), rewards.mean().item()


if __name__ == "__main__":
    for update, (loss, value, _, reward) in enumerate(main()):
        if update % 10 == 0:
            print(f"update {update}: loss {loss:.4f}, value loss {value:.4f}, mean reward {reward:.3f}")
