#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Modules, losses, optimisers and schedules with torch's names, and values with numpy's interface,
# on one rank and on three of different weights. tests/python_modules.py compares them.
# shellcheck disable=SC2154 # status, output and lines are set by bats

load helper.bash

setup() {
    setup_package
    export OPENBLAS_NUM_THREADS=1
}

# everywhere PART...: prints the expected text on standard input, on one rank and on three.
everywhere() {
    local expected
    expected=$(cat)
    run "$PYTHON" "$REPO/tests/python_modules.py" "$@"
    diff <(echo "$expected") <(echo "$output")
    [ "$status" -eq 0 ]
    run "${launch[@]}" --oversubscribe -n 3 "$PYTHON" "$REPO/tests/python_modules.py" "$@"
    diff <(echo "$expected") <(echo "$output")
    [ "$status" -eq 0 ]
}

@test "values, modules, losses and schedules compute numpy's results of torch's formulas" {
    everywhere values attention losses schedules << 'END'
values ok
attention ok
losses ok
schedules ok
END
}

@test "an error in a script names the code to write instead" {
    everywhere words << 'END'
AttributeError: module 'mpimatmul' has no attribute 'sofmax': did you mean 'softmax' or 'max' or 'amax'?
AttributeError: module 'mpimatmul.optim' has no attribute 'adam': did you mean 'Adam' or 'AdamW'?
AttributeError: module 'mpimatmul.nn' has no attribute 'LayerNorms': did you mean 'LayerNorm'?
AttributeError: module 'mpimatmul.optim.lr_scheduler' has no attribute 'StepLr': did you mean 'StepLR' or
  'MultiStepLR'?
TypeError: a value cannot be pickled, because its elements are on the ranks: mm.save('x.npy', value) saves it
  (mm.load has it again), value.numpy() is an array on root
TypeError: a module cannot be pickled: mm.save_file(model.state_dict(), 'model.safetensors') saves what it has
  learned, model.load_state_dict(mm.load_file('model.safetensors')) has it again
TypeError: np.arcsin is not of values: np.arcsin(value.numpy()) is an array on root; mm has exp, log, sqrt, tanh and
  the others of mpimatmul-python(7)
TypeError: np.add of values takes no where: it makes a new value
TypeError: np.add.reduce is not of values: np.add.reduce(value.numpy()) is an array on root; mm has exp, log, sqrt,
  tanh and the others of mpimatmul-python(7)
TypeError: ~ needs bools: x != 0 converts numbers
TypeError: & needs bools: x != 0 converts numbers
TypeError: | needs bools: x != 0 converts numbers
Error: cannot index by bools: the number of elements is unknown before the run (where(mask, x, other) has the sizes
  of x)
Error: cannot take [a value of float64] of a value: expected whole numbers
Error: cannot take [an array] of a value: expected begin:end:step, or a number (x[ids] or take(x, ids) selects rows
  by integers)
Error: cannot iterate over a one-axis value, which is stored as a row (1 x 3) here (x.tolist()[0] has its numbers,
  x.reshape(-1, 1) is a column)
Error: flatten from axis 1 to axis 0 of 2: start_dim must not exceed end_dim
Error: attention: the mask 'argument 4 of attention' holds whole numbers: expected True and False, or floats that
  are added to the scores (compare it: mask != 0)
END
}

@test "a model prints as in torch, and unfitting sizes name the layer" {
    everywhere shown << 'END'
Sequential(
  (0): Linear(in_features=64, out_features=32, bias=True)
  (1): ReLU()
  (2): relu()
  (3): LayerNorm((32,), eps=1e-05, elementwise_affine=True)
  (4): GELU(approximate='tanh')
  (5): Dropout(p=0.1, inplace=False)
  (6): Embedding(11, 8)
  (7): Sequential(
    (0): Linear(in_features=3, out_features=2, bias=False)
    (1): Softmax(dim=-1)
  )
  (8): LeakyReLU(negative_slope=0.2, inplace=True)
  (9): Flatten(start_dim=1, end_dim=-1)
  (10): Identity()
  (11): CrossEntropyLoss()
)
Model(
  (encoder): ModuleList(
    (0): Layer(
      (linear1): Linear(in_features=4, out_features=5, bias=True)
      (linear2): Linear(in_features=5, out_features=4, bias=True)
    )
  )
)
MultiheadAttention(
  (out_proj): Linear(in_features=8, out_features=8, bias=True)
)
Error: cannot multiply 'argument 1 of matmul' (2 x 6) by 'argument 2 of matmul' (5 x 4): inner sizes 6 and 5 differ,
  in layer 'encoder.1.linear2'
Error: cannot multiply 'x' (2 x 3) by 'argument 2 of matmul' (4 x 5): inner sizes 3 and 4 differ, in layer
  'encoder.0.linear1'
Error: cannot multiply 'x' (2 x 4) by 'argument 2 of matmul' (3 x 2): inner sizes 4 and 3 differ, in a Linear
Error: attn_mask is 3 x 2: expected 2 x 2, or 2 x 2 x 2, which is batch * heads in front, in a MultiheadAttention
Error: query, key and value have 2, 3, 2 axes: expected 3 of each, or 2 without a batch, in a MultiheadAttention
Error: key_padding_mask is 2 x 2: expected 1 x 2, in a MultiheadAttention
Error: LayerNorm over the last 2 axes: expected one (x.reshape(..., -1) merges them)
Error: no reduction 'most': expected mean, sum, none
Error: dropout of 1: expected 0 to below 1
Error: MultiheadAttention has no add_bias_kv (join the row to k and v before attention(q, k, v): concat((k, row),
  axis=-2))
Error: MultiheadAttention has no add_zero_attn (join the row to k and v before attention(q, k, v): concat((k, row),
  axis=-2))
Error: cannot multiply 'argument 1 of matmul' (2 x 4) by 'argument 2 of matmul' (3 x 4): inner sizes 4 and 3 differ,
  in a MultiheadAttention
END
}

@test "Adam equals torch's, with groups of rates, and refuses the numbers that torch refuses" {
    everywhere adam << 'END'
64 betas[1] of 1.0: expected 0 to below 1
64 lr of -0.001: expected 0 or more
64 nesterov needs a momentum above 0
64 momentum of -1: expected 0 or more
64 eps of nan: expected 0 or more
64 a parameter occurs twice in the groups of an optimizer
64 a group has 'rate': expected params, lr, betas, eps, weight_decay
64 factors 0 and 1.0: expected more than 0, and 0, up to 1
adam ok
END
}
