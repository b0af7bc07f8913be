#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Python scripts with ranks that end early, come late or make different calls; signals; child
# processes.
# shellcheck disable=SC2154 # status, output and stderr are set by bats

load helper.bash

setup() {
    setup_package
}

# ranks_of COUNT FILE: runs the script under mpirun; the script must end by itself. Sets status,
# output and stderr.
ranks_of() {
    run --separate-stderr timeout 60 "${launch[@]}" --oversubscribe -n "$1" "$PYTHON" "$2" < /dev/null
}

# expect_ended COUNT LINE
expect_ended() {
    ranks_of "$1" one.py
    [ "$stderr" = "mpimatmul: $2" ] && [ "$status" -eq 75 ] && return
    show
    return 1
}

@test "a rank that ends early ends the job, and a line names it" {
    cat > one.py << 'END'
import os, signal, sys, time
import mpimatmul as mm
x = mm.array([[1.0, 2.0]])
if mm.rank() == 1:
    sys.exit(0)
print(mm.rank(), x.shape, flush=True)
x.numpy()
END
    expect_ended 2 "rank 1 has ended, and rank 0 waits for it in numpy() (one.py:7)"
    expect_ended 3 "rank 1 has ended, and ranks 0 and 2 wait for it in numpy() (one.py:7)"
    cat > one.py << 'END'
import os, signal, time
import mpimatmul as mm
signal.signal(signal.SIGINT, signal.default_int_handler)
x = mm.array([[1.0, 2.0]])
if mm.rank() == 0:
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    except KeyboardInterrupt:
        pass
else:
    mm.save("y.npy", x @ x.T)
END
    expect_ended 2 "rank 0 has ended, and rank 1 waits for it in save() (one.py:12)"
    cat > one.py << 'END'
import mpimatmul as mm
x = mm.array([[1.0, 2.0]])
if mm.rank() == 1:
    x @ x
print(float(x.sum()))
END
    ended="rank 1 has ended (cannot multiply 'x' (1 x 2) by 'x' (1 x 2): inner sizes 2 and 1 differ), and rank 0 waits"
    expect_ended 2 "$ended for it in float() (one.py:5)"
}

@test "a late rank is named and awaited" {
    cat > late.py << 'END'
import os, time
import mpimatmul as mm
x = mm.array([[1.0, 2.0]])
os.environ["MPIMATMUL_WAIT_SECONDS"] = "0.5"
if mm.rank() == 0:
    print(x.numpy())
else:
    time.sleep(4)
    x.numpy()
END
    ranks_of 2 late.py
    [ "$stderr" = "mpimatmul: rank 0 has waited 0.5 s in numpy() (late.py:6) for rank 1" ]
    [ "$output" = "[[1. 2.]]" ]
    [ "$status" -eq 0 ]
    ranks_of 4 late.py
    [ "$stderr" = "mpimatmul: rank 0 has waited 0.5 s in numpy() (late.py:6) for ranks 1, 2 and 3" ]
    [ "$status" -eq 0 ]
    sed -i 's/rank() == 0/rank() > 0/' late.py
    ranks_of 3 late.py
    [ "$stderr" = "mpimatmul: ranks 1 and 2 have waited 0.5 s in numpy() (late.py:6) for rank 0" ]
    [ "$status" -eq 0 ]
}

@test "ranks that make different calls get an error that names the calls" {
    cat > calls.py << 'END'
import sys
import mpimatmul as mm
x = mm.array([[1.0, 2.0]])
try:
    if mm.rank() == 0:
        x.numpy()
    else:
        mm.save("y.npy", x)
except mm.Error as error:
    sys.stdout.write(f"{mm.rank()} {error.status} {error}\n")
found = x.numpy() if mm.rank() == 0 else mm.evaluate(x)[0]  # these are alike
sys.stdout.write(f"{mm.rank()} {found}\n")
END
    ranks_of 2 calls.py
    told="64 rank 0 is in numpy() (calls.py:6) and rank 1 in save() (calls.py:8): all ranks must make the same calls"
    diff <(printf '%s\n' "0 $told" "0 [[1. 2.]]" "1 $told" "1 None") <(sort <<< "$output")
    [ "$status" -eq 0 ]
}

@test "a signal that one rank gets while it waits becomes an error of all ranks, with its exception" {
    cat > stop.py << 'END'
import os, signal, sys, threading, time
import mpimatmul as mm
signal.signal(signal.SIGINT, signal.default_int_handler)
x = mm.array([[1.0, 2.0]])
if mm.rank() == 1:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
else:
    time.sleep(2)
try:
    x.numpy()
except (mm.Error, KeyboardInterrupt) as error:
    sys.stdout.write(f"{mm.rank()} {type(error).__name__} {error}\n")
sys.stdout.write(f"{mm.rank()} {float(x.sum())}\n")
END
    ranks_of 2 stop.py
    diff <(printf '%s\n' "0 3.0" "0 Error rank 1 was interrupted" "1 3.0" "1 KeyboardInterrupt ") <(sort <<< "$output")
    [ "$status" -eq 0 ]
    cat > one.py << 'END'
import os, signal, threading, time
import mpimatmul as mm
signal.signal(signal.SIGINT, signal.default_int_handler)
x = mm.array([[1.0, 2.0]])
os.environ["MPIMATMUL_WAIT_SECONDS"] = "0.5"
if mm.rank() == 1:
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
else:
    time.sleep(60)
x.numpy()
END
    ranks_of 2 one.py
    told="rank 1 was interrupted, and rank 1 waits for rank 0 in numpy() (one.py:10)"
    [ "$(tail -n 1 <<< "$stderr")" = "mpimatmul: $told" ]
    [ "$status" -eq 75 ]
}

@test "a child of fork() ends normally and computes nothing" {
    cat > fork.py << 'END'
import os, sys
import mpimatmul as mm
x = mm.array([[1.0, 2.0]])
x.numpy()
child = os.fork()
if child == 0:
    try:
        x.numpy()
    except mm.Error as error:
        # the output of two ranks may mix
        with open("told" + os.environ.get("OMPI_COMM_WORLD_RANK", ""), "w") as file:
            print(error.status, error, error.hint, file=file)
    if len(sys.argv) > 1:
        raise ValueError("of a child")
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), x.numpy())
END
    told="64 this process is a child of fork(): values must be computed by the parent"
    told+=" start children by multiprocessing's spawn, or fork before the first value"
    run --separate-stderr timeout 30 "$PYTHON" fork.py
    [ "$(cat told)" = "$told" ]
    [ "$output" = '3 [[1. 2.]]' ]
    [ "$stderr$status" = 0 ]
    rm told
    run --separate-stderr timeout 30 "$PYTHON" fork.py raises
    [ "$(cat told)" = "$told" ]
    [ "$output" = '1 [[1. 2.]]' ]
    [ "$(tail -n 1 <<< "$stderr")" = "ValueError: of a child" ]
    [ "$status" -eq 0 ]
    run --separate-stderr timeout 30 "${launch[@]}" -n 2 "$PYTHON" fork.py
    [ "$(cat told0 told1)" = "$told"$'\n'"$told" ]
    [ "$status" -eq 0 ]
}

# interrupted SIGNAL COMMAND...: sends the signal to a script in the middle of a minute's
# computation. Sets code; out and err hold the output.
interrupted() {
    local signal=$1
    shift
    cat > long.py << 'END'
import sys
import mpimatmul as mm
mm.init(device="faulty:delay=60s:cpu")
a, b = mm.generate((100, 200)), mm.generate((200, 50))
try:
    mm.save("y.npy", a @ b)
except KeyboardInterrupt:
    if "caught" not in sys.argv:
        raise
    sys.exit(7)
END
    env --default-signal=INT,TERM,HUP "$@" > out 2> err < /dev/null 3>&- &
    for ((i = 0; i < 600; i++)); do
        [ ! -e y.npy.part ] || break
        sleep 0.1
    done
    sleep 0.3
    kill "-$signal" $!
    code=0
    wait $! || code=$?
    [ ! -s out ] && expect_only_files long.py out err old.npy y.npy && cmp y.npy old.npy
}

@test "a signal ends a single script at once and leaves no temporary file" {
    "$PYTHON" -c 'import numpy as np; np.save("y.npy", np.ones(3)); np.save("old.npy", np.ones(3))'
    SECONDS=0
    interrupted INT "$PYTHON" "$PWD/long.py"
    [ "$code" -eq 130 ]
    diff - err << END
Traceback (most recent call last):
  File "$PWD/long.py", line 6, in <module>
    mm.save("y.npy", a @ b)
KeyboardInterrupt
END
    interrupted INT "$PYTHON" long.py caught
    [ "$code $(cat err)" = "7 " ]
    interrupted TERM "$PYTHON" long.py
    [ "$code $(cat err)" = "143 " ]
    interrupted HUP "$PYTHON" long.py
    [ "$code $(cat err)" = "129 " ]
    interrupted INT mpirun -q --oversubscribe -n 2 "$PYTHON" long.py
    [ "$code" -eq 1 ]
    [ "$SECONDS" -lt 60 ]  # none has waited for its end
}

@test "a script can continue after it has caught an interruption" {
    cat > again.py << 'END'
import os, signal, threading
import mpimatmul as mm
signal.signal(signal.SIGINT, signal.default_int_handler)
mm.init(device="faulty:delay=1s:cpu")
a, b = mm.generate((3, 4), "integer"), mm.generate((4, 5), "integer")
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    mm.save("y.npy", a @ b)
except KeyboardInterrupt:
    print(os.path.exists("y.npy"), os.path.exists("y.npy.part"))
A, B = mm.evaluate(a, b)
mm.save("y.npy", a @ b)
print((mm.load("y.npy").numpy() == A @ B).all())
x = mm.persist(a)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:  # short steps, which have no thread of their own
        x = mm.persist(x * 1)
except KeyboardInterrupt:
    print((x.numpy() == A).all())
END
    run timeout 60 "$PYTHON" again.py
    [ "$output" = $'False False\nTrue\nTrue' ]
    [ "$status" -eq 0 ]
    expect_only_files again.py y.npy
}

@test "small programs run on root alone, and all ranks read their values where a program needs them" {
    cat > small.py << 'END'
import sys
import numpy as np
import mpimatmul as mm
rng = np.random.default_rng(3)
X, W = rng.integers(-4, 5, (37, 19)).astype("f4"), rng.integers(-4, 5, (19, 11)).astype("f4")
index = np.array([[5, 0, 18]])
weight = mm.persist(mm.relu(mm.array(W)))
rows, mask = mm.persist(mm.argsort(mm.array(-index)))[0], mm.persist(mm.array(W) > 0)
product = mm.persist(mm.place(mm.array(X), "rows") @ mm.where(mask, weight, -1.0))
expected = X @ np.where(W > 0, W, -1)
turned = mm.place(weight[rows], "rows").numpy()
twice = (weight * 2).numpy()  # on root again
del weight, mask
later = mm.persist(product + 1)
if mm.rank() == 0:
    print(np.array_equal(product.numpy(), expected), np.array_equal(turned, np.maximum(W, 0)[[2, 0, 1]]),
          np.array_equal(twice, 2 * np.maximum(W, 0)))
else:
    product.numpy()
try:
    mm.array(X)[mm.array(np.array([40]))].numpy()
except mm.Error as error:
    sys.stdout.write(f"{mm.rank()} {error.status} {error}\n")
model = mm.nn.Sequential(mm.nn.Linear(19, 7), mm.relu, mm.nn.Linear(7, 3))
model.load_state_dict({"0.weight": W.T[:7].copy(), "0.bias": W[:1, :7].copy(), "2.weight": W[:3, :7].copy(),
                       "2.bias": W[4:5, :3].copy()})
optimizer = mm.optim.AdamW(model.parameters(), lr=1e-2)


@mm.compile
def step(x, y):
    loss = mm.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


losses = [step(X[i:i + 8], np.arange(8) % 3) for i in range(9)]
digits = " ".join(loss.item().hex() for loss in losses)
if mm.rank() == 0:
    print(f"{product.placement.split()[0]}, then {losses[-1].placement}" if mm.size() > 1 else "")
    print(digits)
END
    export OPENBLAS_NUM_THREADS=1
    ranks_of 1 small.py
    digits=$(tail -n 1 <<< "$output")
    [ "$(wc -w <<< "$digits")" -eq 9 ]
    for ranks in 1 2 3; do
        ranks_of "$ranks" small.py
        told="65 cannot read row 40 of 'array of small.py:21', which has 37 rows"
        diff <({
            for ((rank = 0; rank < ranks; rank++)); do echo "$rank $told"; done
            printf '%s\n' "True True True" "$([ "$ranks" = 1 ] || echo 'rows, then rank 0')" "$digits"
        } | sort) <(sort <<< "$output")
        [ "$status$stderr" = 0 ]
    done
}
