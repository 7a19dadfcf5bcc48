# SPDX-License-Identifier: Apache-2.0
"""Attention as its formula says, in float64, one query and head after another."""
import numpy


def attention(q, k, v, causal=False, scale=None, window=0, softcap=0.0, slopes=None):
    """O and log-sum-exp of arrays [batch, length, heads, dim]."""
    batch, q_len, heads, dim = q.shape
    o, lse = numpy.zeros((batch, q_len, heads, v.shape[3])), numpy.full((batch, heads, q_len), -numpy.inf)
    for b in range(batch):
        for h in range(heads):
            keys, values = (x[b, :, h * x.shape[2] // heads].astype(float) for x in (k, v))
            for i in range(q_len):
                scores = (scale or dim**-0.5) * (keys @ q[b, i, h].astype(float))
                lse[b, h, i], weights = softmax(scores, i + len(keys) - q_len, causal, window, softcap,
                                                0 if slopes is None else slopes[h])
                o[b, i, h] = weights @ values
    return o, lse


def softmax(scores, position, causal, window, softcap, slope, sink=-numpy.inf):
    """The log-sum-exp and the weights of a query at a position."""
    keys = numpy.arange(len(scores))
    if softcap:
        scores = softcap * numpy.tanh(scores / softcap)
    scores = scores + slope * (keys - position)
    if causal:
        scores = numpy.where((keys <= position) & ((keys > position - window) | (window == 0)), scores, -numpy.inf)
    lse = numpy.logaddexp.reduce(numpy.append(scores, sink))
    return lse, numpy.exp(scores - lse) if lse > -numpy.inf else numpy.zeros(len(scores))
