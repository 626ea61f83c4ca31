"""NumPy numbers the elements, and looks for the number in each slice."""

import numpy as np


def who_holds(array, index):
    numbers = np.arange(array.size).reshape(array.shape)
    wanted = numbers[index]
    holders = set()
    for shard in array.addressable_shards:
        if np.isin(wanted, numbers[shard.index]):
            holders.add(shard.device.id)
    return np.sort([*holders])
