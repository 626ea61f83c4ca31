"""Messages as people quote them, for the guide and for the search."""

# What versions before the tested ones said, or what only a cluster says,
# and what the heading of the section has.
QUOTED = {
    "Received incompatible devices for jitted computation. Got argument "
    "args[0] of broadcast_in_dim with shape float32[1] and device ids [0] "
    "on platform GPU and jit's context mesh with device ids [0, 1, 2, ..., "
    "31] on platform GPU": "Received incompatible devices",
    "One of pjit outputs was given the sharding of NamedSharding(mesh=Mesh("
    "'dp': 1, 'fsdp': 32, 'tp': 1, 'sp': 1), spec=PartitionSpec(('dp', "
    "'fsdp'), 'sp'), memory_kind=device), which implies that the global "
    "size of its dimension 0 should be divisible by 32, but it is equal to "
    "1 (full shape: (1, 130048))": "implies that array axis",
    "Primitive reduce requires varying manual axes to match, but got "
    "[frozenset({'model', 'data'}), frozenset()]. Please open an issue": (
        "so the manual axis types do not match"
    ),
    "_psum_invariant_abstract_eval() got an unexpected keyword argument "
    "'axis_index_groups'": "Fixed in the tested versions",
    "Expected tuple, got JitTracer(float32[2]).": "pytree structure error",
    "Custom node type mismatch: expected type: <class 'flax.nnx.variablelib"
    ".Param'>, value: JitTracer(float32[2,1]).": "pytree structure error",
    "cannot reshape array of size 2 into shape (1,64)": (
        "must be >= the product of mesh_shape"
    ),
    "with_sharding_constraint requires a non-empty mesh if you are passing "
    "`PartitionSpec`s or `None` to shardings! Is a mesh defined at the "
    "call site?": "requires a non-empty mesh in context",
    "UNIMPLEMENTED: HLO opcode `ragged-all-to-all` is not supported by "
    "XLA:CPU ThunkEmitter": "is not supported by XLA:CPU",
    "Unable to initialize backend 'cuda': INTERNAL: no supported devices "
    "found for platform CUDA": "Unable to initialize backend",
    "This thread has been waiting for `initialize clique for rank 6; "
    "clique=devices=[0,1,2]` for 10 seconds and may be stuck. Expected 8 "
    "threads to join the rendezvous, but not all of them arrived.": (
        "and may be stuck"
    ),
    "Found unexpected data on value of type <class 'list'> in static "
    "attribute 'rope_generators' of Pytree type": "Found data on value",
    "Fetching value for `jax.Array` that spans non-addressable (non "
    "process local) devices is not possible.": "spans non-addressable",
    "Unable to compute global_shape due to non-uniform sharding. Specify "
    "global shape directly.": "non-uniform sharding",
    "UNAVAILABLE: The following tasks are unhealthy (stopped sending "
    "heartbeats):\n1\nThe tasks have crashed.": "tasks are unhealthy",
    "Terminating process because the JAX distributed service detected "
    "fatal errors. absl::Status: DEADLINE_EXCEEDED: Deadline "
    "Exceeded\n\nRPC: /xla.coordination.CoordinationService/RegisterTask": (
        "RegisterTask"
    ),
    "Make sure that the axis_name passed to jax.lax.ppermute is in the "
    "same order as the axis_names declared on the mesh.": (
        "in the same order"
    ),
    "User-provided restore item and on-disk value metadata tree structures "
    "do not match: bias:": "tree structures do not match",
    "Requested shape: (16, 12) is not compatible with the stored shape: "
    "(16, 8).": "Requested shape",
    "INVALID_ARGUMENT: Non-replicated subgroup (e.g., manual or unreduced "
    "subgroup) sharding does not support UniqueIndexDomains": (
        "sharding does not support UniqueIndexDomains"
    ),
    "INVALID_ARGUMENT: Disallowed host-to-device transfer: aval="
    "ShapedArray(float32[16,8]), dst_sharding=": (
        "Disallowed device-to-device transfer"
    ),
    "INVALID_ARGUMENT: Buffer passed to Execute() as argument 0 to replica "
    "0 is on device cpu:2, but replica is assigned to device cpu:0.": (
        "but replica is assigned to device"
    ),
    "[spmd] Involuntary full rematerialization. The compiler was not able "
    "to go from sharding {maximal device=0} to {devices=[4,1]<=[4]} "
    "without doing a full rematerialization of the tensor.": (
        "Involuntary full rematerialization"
    ),
    # One message of three causes, which its other words tell apart.
    "scan body function carry input and carry output must have equal "
    "types, but they differ: The input carry c has type f32[4,8] but the "
    "corresponding output carry component has type f32[4@data,8].": (
        "carry output must have equal types"
    ),
    "scan body function carry input and carry output must have equal "
    "types, but they differ: The input carry c has type float32[8] but the "
    "corresponding output carry component has type float32[8]{V:data}, so "
    "the manual axis types do not match.": (
        "so the manual axis types do not match"
    ),
    "Custom VJP bwd rule must produce an output with the same type as the "
    "args tuple of the primal function, but at output[0] the bwd rule "
    "produced an output of type float32[]{V:dp} corresponding to an input "
    "of type float32[], so the manual axis types do not match": (
        "must produce an output with the same type"
    ),
}
