"""Pure-torch stand-ins for the speculative kernels of `sgl_kernel`."""

import torch


def reconstruct_indices_from_tree_mask(tree_mask, verified_seq_len, positions, retrive_index, retrive_next_token,
                                       retrive_next_sibling, batch_size, draft_token_num):
    n = draft_token_num
    m = tree_mask.view(-1)[: batch_size * n * n].view(batch_size, n, n)
    tri = torch.tril(torch.ones(n, n, dtype=torch.bool), -1)
    anc = m & tri
    idx = torch.arange(n)
    parent = torch.where(anc, idx, -1).max(-1).values
    positions.view(-1)[: batch_size * n] = (anc.sum(-1) + verified_seq_len[:batch_size, None]).flatten()
    retrive_index[:batch_size] = (torch.arange(batch_size)[:, None] * n + idx)
    for b in range(batch_size):
        p = parent[b].tolist()
        nt, ns = [-1] * n, [-1] * n
        for i in range(n - 1, 0, -1):
            if p[i] >= 0:
                ns[i] = nt[p[i]]
                nt[p[i]] = i
        retrive_next_token[b] = torch.tensor(nt)
        retrive_next_sibling[b] = torch.tensor(ns)
