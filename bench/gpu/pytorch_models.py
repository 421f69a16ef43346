"""The models of pytorch.py: those of timm, torchvision and transformers, written out, so that none of them need be there."""
import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width, eps=1e-6), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 197, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(12)])
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 1000)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class Bottleneck(nn.Module):
    def __init__(self, channels, inner, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, 4 * inner, 1, bias=False), nn.BatchNorm2d(4 * inner)
        self.shortcut = None
        if stride != 1 or channels != 4 * inner:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, 4 * inner, 1, stride, bias=False), nn.BatchNorm2d(4 * inner))

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        y = functional.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        return functional.relu(y + (x if self.shortcut is None else self.shortcut(x)), inplace=True)


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, 64 << stage, 2 if block == 0 and stage > 0 else 1))
            channels = 4 * (64 << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


class WindowAttention(nn.Module):
    """Attention within windows of 7 × 7, shifted by half of one in every other block."""

    def __init__(self, width, heads, side, shift, window=7):
        super().__init__()
        self.heads, self.window, self.shift, self.side = heads, window, shift if side > window else 0, side
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.table = nn.Parameter(0.02 * torch.randn((2 * window - 1) ** 2, heads))
        at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = (at[:, :, None] - at[:, None]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", apart[..., 0] * (2 * window - 1) + apart[..., 1])
        region = torch.zeros(side, side)
        for i, rows in enumerate((slice(-window), slice(-window, -self.shift), slice(-self.shift, None)) if self.shift else ()):
            for j, columns in enumerate((slice(-window), slice(-window, -self.shift), slice(-self.shift, None))):
                region[rows, columns] = 3 * i + j
        of_window = self.windows(region[None, :, :, None])[..., 0]
        mask = torch.where(of_window[:, None] != of_window[:, :, None], -100.0, 0.0)
        self.register_buffer("mask", mask[:, None] if self.shift else None)

    def windows(self, x):
        b, h, w, c = x.shape
        n = self.window
        return x.reshape(b, h // n, n, w // n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, n * n, c)

    def forward(self, x):
        b, h, w, c = x.shape
        n = self.window
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = self.windows(x)
        q, k, v = self.qkv(x).reshape(-1, n * n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.table[self.index.flatten()].reshape(n * n, n * n, -1).permute(2, 0, 1)[None]
        if self.mask is not None:
            bias = (bias + self.mask).repeat(b, 1, 1, 1)
        x = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        x = self.proj(x.transpose(1, 2).reshape(-1, n * n, c))
        x = x.reshape(b, h // n, w // n, n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x


class WindowBlock(Block):
    def __init__(self, width, heads, side, shift):
        super().__init__(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = WindowAttention(width, heads, side, shift)


class Merge(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.reduction(self.norm(torch.cat(parts, -1)))


class Swin(nn.Module):
    def __init__(self, width=96, depths=(2, 2, 6, 2), heads=(3, 6, 12, 24)):
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        layers, side = [], 56
        for stage, depth in enumerate(depths):
            if stage > 0:
                layers.append(Merge(width))
                width, side = 2 * width, side // 2
            layers += [WindowBlock(width, heads[stage], side, 3 * (i % 2)) for i in range(depth)]
        self.layers = nn.Sequential(*layers)
        self.last_norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, images):
        x = self.norm(self.patches(images).permute(0, 2, 3, 1))
        return self.head(self.last_norm(self.layers(x)).mean((1, 2)))


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of [N, C, H, W]."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.gamma = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x):
        return x + (self.gamma * self.mlp(self.norm(self.conv(x).permute(0, 2, 3, 1)))).permute(0, 3, 1, 2)


def convnext_tiny():
    widths, layers = (96, 192, 384, 768), [nn.Conv2d(3, 96, 4, 4), ChannelNorm(96, eps=1e-6)]
    for stage, depth in enumerate((3, 3, 9, 3)):
        if stage > 0:
            layers += [ChannelNorm(widths[stage - 1], eps=1e-6), nn.Conv2d(widths[stage - 1], widths[stage], 2, 2)]
        layers += [ConvNextBlock(widths[stage]) for _ in range(depth)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(768, eps=1e-6), nn.Linear(768, 1000))


class BertBlock(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (layer(x).reshape(b, n, self.heads, c // self.heads).transpose(1, 2) for layer in (self.query, self.key, self.value))
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout).transpose(1, 2).reshape(b, n, c)
        x = self.norm1(x + functional.dropout(self.out(y), self.dropout))
        return self.norm2(x + functional.dropout(self.down(functional.gelu(self.up(x))), self.dropout))


class Bert(nn.Module):
    def __init__(self, width=768, heads=12, depth=12, dropout=0.1):
        super().__init__()
        self.dropout = dropout
        self.words, self.positions, self.kinds = nn.Embedding(30522, width), nn.Embedding(512, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.blocks = nn.Sequential(*[BertBlock(width, heads, dropout) for _ in range(depth)])
        self.pooler, self.head = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, tokens):
        x = self.words(tokens) + self.positions.weight[: tokens.shape[1]] + self.kinds.weight[0]
        x = self.blocks(functional.dropout(self.norm(x), self.dropout))
        return self.head(functional.dropout(torch.tanh(self.pooler(x[:, 0])), self.dropout))


MODELS = {
    "deit_base": lambda: VisionTransformer(768, 12),
    "deit_tiny": lambda: VisionTransformer(192, 3),
    "resnet50": resnet50,
    "swin_tiny": Swin,
    "convnext_tiny": convnext_tiny,
    "bert_base": Bert,
}
