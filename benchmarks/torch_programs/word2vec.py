"""word2vec: skip-grams with negative sampling (Mikolov et al., 2013), on a small corpus of made-up sentences."""

from collections import Counter

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SUBJECTS = ("the cat", "the dog", "a king", "a queen", "one child", "my friend", "the old man", "a sailor")
VERBS = ("sees", "likes", "follows", "paints", "hears", "finds", "forgets")
OBJECTS = ("the sea", "a house", "bread and cheese", "the moon", "a small boat", "music", "the red door")


def make_corpus(sentences=200, seed=12):
    rng = np.random.default_rng(seed)
    return [
        " ".join(str(rng.choice(words)) for words in (SUBJECTS, VERBS, OBJECTS)).split() for _ in range(sentences)
    ]


class SkipGrams(Dataset):
    """Pairs of a word and one near it."""

    def __init__(self, corpus, window=2):
        counts = Counter(word for sentence in corpus for word in sentence)
        self.vocab = {word: i for i, (word, _) in enumerate(sorted(counts.items()))}
        weights = np.array([counts[word] for word in self.vocab]) ** 0.75
        self.noise = weights / weights.sum()
        self.pairs = []
        for sentence in corpus:
            ids = [self.vocab[word] for word in sentence]
            for i, center in enumerate(ids):
                around = ids[max(0, i - window) : i] + ids[i + 1 : i + 1 + window]
                self.pairs += [(center, context) for context in around]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        return self.pairs[index]


class Collate:
    """Makes a batch, with negative words for each pair."""

    def __init__(self, noise, negatives, seed):
        self.noise, self.negatives, self.rng = noise, negatives, np.random.default_rng(seed)

    def __call__(self, pairs):
        centers, contexts = zip(*pairs, strict=True)
        negatives = self.rng.choice(len(self.noise), (len(pairs), self.negatives), p=self.noise)
        return torch.LongTensor(centers), torch.LongTensor(contexts), torch.from_numpy(negatives)


class SkipGramModel(nn.Module):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.u_embeddings = nn.Embedding(vocab_size, dim)
        self.v_embeddings = nn.Embedding(vocab_size, dim)
        bound = 0.5 / dim
        self.u_embeddings.weight.data.uniform_(-bound, bound)
        self.v_embeddings.weight.data.zero_()

    def forward(self, centers, contexts, negatives):
        u, v, n = self.u_embeddings(centers), self.v_embeddings(contexts), self.v_embeddings(negatives)
        score = torch.sum(u * v, dim=1).clamp(-10, 10)
        noise = torch.bmm(n, u.unsqueeze(2)).squeeze(2).clamp(-10, 10)
        return -(F.logsigmoid(score) + F.logsigmoid(-noise).sum(1)).mean()


def build(data=None, dim=32):
    data = SkipGrams(make_corpus()) if data is None else data
    return SkipGramModel(len(data.vocab), dim)


def main(steps=500, state=None, device="cpu"):
    data = SkipGrams(make_corpus())
    model = build(data)
    if state is not None:
        model.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    model.to(device)
    loader = DataLoader(data, batch_size=128, shuffle=False, collate_fn=Collate(data.noise, 5, seed=13))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    done = 0
    while done < steps:
        for batch in loader:
            loss = model(*(part.to(device) for part in batch))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            yield loss.item()
            if done == steps:
                break
    words = list(data.vocab)
    vectors = F.normalize(model.u_embeddings.weight.detach(), dim=1)
    values, indices = torch.topk(vectors @ vectors[data.vocab["sees"]], k=4)
    print("nearest to 'sees':", ", ".join(f"{words[i]} {v:.2f}" for v, i in zip(values[1:], indices[1:], strict=True)))


if __name__ == "__main__":
    for step, loss in enumerate(main()):
        if step % 50 == 0:
            print(f"{step}: {loss:.4f}")
