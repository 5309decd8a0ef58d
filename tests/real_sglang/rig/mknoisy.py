"""Writes a model beside the target whose weights are a little off: it drafts well, not perfectly."""

import sys, torch, shutil
from transformers import LlamaForCausalLM
src, dst, eps = sys.argv[1], sys.argv[2], float(sys.argv[3])
shutil.copytree(src, dst, dirs_exist_ok=True)
m = LlamaForCausalLM.from_pretrained(src, dtype=torch.bfloat16); torch.manual_seed(7)
for p in m.parameters():
    if p.dim() == 2: p.data += (torch.randn_like(p.float()) * p.float().std() * eps).to(p.dtype)
m.save_pretrained(dst)
