"""Starts and stops of the slices are compared, device by device."""


def who_holds(array, index):
    index = tuple(map(inside, index, array.shape))
    slices = array.sharding.devices_indices_map(array.shape)
    devices = sorted(array.devices(), key=lambda device: device.id)
    return [d.id for d in devices if has(slices[d], index, array.shape)]


def inside(position, size):
    if position < 0:
        position += size
    if position < 0 or position >= size:
        raise IndexError(position)
    return position


def has(slices, index, shape):
    for part, position, size in zip(slices, index, shape, strict=True):
        start, stop, _ = part.indices(size)
        if position < start or position >= stop:
            return False
    return True
