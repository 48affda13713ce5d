#!/bin/bash
# Real programs, in a project with an overlay: compilers, interpreters, git, debuggers, a shell with jobs. Under strict, too, what it is for.
. "$(dirname "$0")/../lib/lib.sh"

BOX_SECONDS=60
strict=(-s syscalls.policy=strict)

project() {
	mkdir -p c py js java
	printf '%s\n' '#include <stdio.h>' '#include "part.h"' 'int main(void)' '{' '	printf("%d\n", part(6, 7));' '	return 0;' '}' >c/main.c
	printf '%s\n' '#include "part.h"' '#include <pthread.h>' 'static void *run(void *arg)' '{' '	return arg;' '}' 'int part(int a, int b)' '{' '	pthread_t t;' '	void *r;' \
		'	if (pthread_create(&t, 0, run, (void *)(long)(a * b)) || pthread_join(t, &r))' '		return -1;' '	return (int)(long)r;' '}' >c/part.c
	echo 'int part(int a, int b);' >c/part.h
	printf '%s\n' 'CFLAGS = -O2 -g -Wall' 'prog: main.o part.o' '	$(CC) -pthread -o $@ $^' 'libpart.a: part.o' '	$(AR) rc $@ $^' 'check: prog' '	test "$$(./prog)" = 42 && echo passed' \
		'clean:' '	rm -f *.o *.a prog' >c/Makefile
	cat >py/work.py <<'END'
import multiprocessing, os, socket, sqlite3, subprocess, tempfile, threading, time


def square(x):
    return x * x


if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        print(sum(pool.map(square, range(10))))
    spawn = multiprocessing.get_context("spawn")
    queue = spawn.Queue()
    process = spawn.Process(target=queue.put, args=("spawned",))
    process.start()
    print(queue.get(timeout=20))
    process.join()
    lock, n = multiprocessing.Lock(), []
    threads = [threading.Thread(target=lambda: n.append(1)) for _ in range(30)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print(len(n))
    print(subprocess.run(["sh", "-c", "echo child"], capture_output=True, text=True).stdout.strip())
    with tempfile.NamedTemporaryFile() as f:
        db = sqlite3.connect(f.name)
        db.execute("create table t(a)")
        db.execute("insert into t values(5)")
        db.commit()
        print(db.execute("select a from t").fetchone()[0])
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    server.accept()[0].sendall(b"loopback")
    print(client.recv(100).decode())
END
	printf '%s\n' '{"name": "tiny", "version": "1.0.0", "scripts": {"test": "node --test"}}' >js/package.json
	printf '%s\n' 'exports.add = (a, b) => a + b' >js/index.js
	printf '%s\n' 'const test = require("node:test"), assert = require("node:assert"), { add } = require("./index.js")' \
		'test("adds", () => assert.strictEqual(add(2, 3), 5))' 'test("waits", async () => { await new Promise(r => setTimeout(r, 10)) })' >js/index.test.js
	printf '%s\n' 'import java.util.stream.*;' 'public class Hello {' '  public static void main(String[] a) throws Exception {' \
		'    Thread t = new Thread(() -> System.out.println(IntStream.range(0, 1000).parallel().sum()));' '    t.start(); t.join();' \
		'  }' '}' >java/Hello.java
	git add -A
	git commit -q -m project
}

PYTHON='285 spawned 30 child 5 loopback'

compilers() {
	run "$@" -- make -C c -j4 check
	is "$status" 0 "make and gcc build a project$with"
	like "$out" '^passed$' "and it runs$with"
	run "$@" -- sh -c 'make -s -C c check libpart.a && touch c/part.h c/part.c && make -C c | grep -c part.c && make -s -C c clean && ls c | xargs'
	is "$(echo $out)" 'passed 1 Makefile main.c part.c part.h' "again, what has changed alone$with"
	is "$(ls c | xargs)" 'Makefile main.c part.c part.h' "the project itself is as it was$with"
	run "$@" -- sh -c 'gcc -O2 -flto -pipe -fsanitize=undefined -pthread -o "$TMPDIR/p" c/*.c && "$TMPDIR/p"; g++ -x c++ -c -o /dev/null /dev/null'
	is "$out" 42 "LTO and a sanitizer$with"
}

python() {
	run "$@" -- python3 py/work.py
	is "$status $(echo $out)" "0 $PYTHON" "python3: threads, multiprocessing, sqlite, loopback$with"
	run "$@" -- sh -c 'python3 -m venv --without-pip "$HOME/v" && "$HOME/v/bin/python" -m unittest -q 2>&1 | grep -c "Ran 0"; python3 -m compileall -q py && ls py'
	is "$(echo $out)" '1 __pycache__ work.py' "python3: a venv, unittest, compileall$with"
}

git_works() {
	run "$@" -- sh -ec 'export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
		echo more >>README; git commit -qam more; git clone -q . "$HOME/clone"; cd "$HOME/clone"
		git checkout -qb topic HEAD~1; echo t >t; git add t; git commit -qm topic; git rebase -q origin/main; git log --format=%s | head -n 2
		echo s >>t; git stash -q; git stash pop -q; git diff --stat | tail -n 1; git gc -q; git fsck --no-dangling
		git init -q "$TMPDIR/new"; cd "$TMPDIR/new"; git commit -q --allow-empty -m first; git pull -q --no-rebase --allow-unrelated-histories "$HOME/clone" main
		git worktree add -q ../wt; git -C ../wt status -s | wc -l; git rev-list --count HEAD'
	is "$status" 0 "git: commit, clone, rebase, stash, gc, pull, worktree$with"
	is "$(echo $out)" 'topic more 1 file changed, 1 insertion(+) 0 5' "git: and what came of it$with"
	is "$(git log --format=%s | xargs)" 'project first' "git: nothing of it in the project itself$with"
}

javascript() {
	if ! have node; then
		skip node 'node'
		return
	fi
	run -- sh -c 'cd js && node --test'
	is "$status" 0 'node --test'
	like "$out" '(pass 2|tests 2)' 'two tests'
	if have npm; then
		run -- sh -c 'cd js && npm test --silent'
		is "$status" 0 'npm test'
		run -- sh -c 'cd js && npm pack --silent --dry-run && npm install --silent --offline --no-audit && ls package-lock.json'
		like "$out" 'package-lock.json' 'npm install of no dependencies, without network'
	else
		skip npm 'npm test'
	fi
	run -- node -e 'const { fork } = require("child_process"), http = require("http")
		http.createServer((q, r) => r.end("served")).listen(0, "127.0.0.1", function () {
			http.get({ port: this.address().port }, r => r.on("data", d => { console.log(String(d)); this.close() })) })
		require("child_process").exec("echo child", (e, s) => console.log(s.trim()))'
	is "$(sort <<<"$out" | xargs)" 'child served' 'node: a server of its own, a child'
}

others() {
	# As PATH in the box has them.
	if have cargo; then
		run -- sh -c 'cd "$TMPDIR" && cargo init -q --vcs none tiny && cd tiny && cargo run -q --offline'
		is "$status $out" '0 Hello, world!' 'cargo run'
	else
		skip cargo 'cargo run'
	fi
	if have go; then
		run -- sh -c 'cd "$TMPDIR" && printf "package main\nfunc main() { c := make(chan int); go func() { c <- 42 }(); println(<-c) }\n" >m.go && GOFLAGS=-mod=mod go run m.go'
		is "$status $err" '0 42' 'go run'
	else
		skip go 'go run'
	fi
	if have javac; then
		run -- sh -c 'javac -d "$TMPDIR" java/Hello.java && java -cp "$TMPDIR" Hello'
		is "$status $out" '0 499500' 'javac and java, with threads'
	elif have java; then
		run -- java -version
		is "$status" 0 'java starts'
		skip javac 'javac'
	else
		skip java 'java'
	fi
	run -- perl -e 'use Socket; socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0); if (!fork) { syswrite $a, "pair\n"; exit } sysread $b, $_, 9; print; wait; print $?'
	is "$(echo $out)" 'pair 0' 'perl: fork and a socket pair'
	run -- bash -c 'set -o pipefail; tar -C c -cf - . | gzip | gunzip | tar -tf - | wc -l; find . -name "*.c" -print0 | xargs -0 -P4 -n1 wc -l | wc -l; coproc cat; echo co >&"${COPROC[1]}"; read -r l <&"${COPROC[0]}"; echo $l'
	is "$(echo $out)" '5 3 co' 'bash: pipelines, xargs -P, coproc'
}

debuggers() {
	if have strace; then
		run -- sh -c 'make -s -C c && strace -f -c -o t c/prog && grep -c clone t; strace -f -e trace=execve -o t sh -c "true; /bin/true" && grep -c execve t'
		is "$(sed -n 1p "$T/out")" 42 'strace -f: a program with threads'
		cmp_ok "$(sed -n 3p "$T/out")" -ge 2 'and its children'
		run -- sh -c 'sleep 30 & p=$!; timeout -s INT 1 strace -o t -p $p; kill $p; grep -Ec "nanosleep|restart_syscall" t'
		is "$out" 1 'strace -p of a child of the same shell'
	else
		skip strace 'strace'
	fi
	if have gdb; then
		run -- sh -c 'make -s -C c CFLAGS="-O0 -g" && gdb -nx -batch -ex "break part" -ex run -ex bt -ex "print a * b" -ex "watch b" -ex finish -ex "info threads" c/prog'
		is "$status" 0 'gdb: a breakpoint in a program with threads'
		like "$out" '^\$1 = 42' 'gdb: a value'
		like "$out" '#1 .* main \(\)' 'gdb: a backtrace'
		run -- sh -c 'sleep 30 & gdb -nx -batch -ex "info proc" -p $!; kill $!'
		like "$out" 'process [0-9]+' 'gdb: attached to a child of the same shell'
	else
		skip gdb 'gdb'
	fi
}

# ^Z, bg, fg, ^C, wait and kill by job number, on a terminal of the box's own. stop.pl says when it has the terminal.
jobs_work() {
	echo '$| = 1; $SIG{CONT} = sub { print "resumed\n" }; print "sleeping\n"; sleep 98 while 1' >stop.pl
	capture timeout -k 2 -s KILL 40 python3 "$SCRATCH/tests/lib/pty.py" -e '[$#] ' \
		-s 'sleep 41 &\n' -e '\[1\] [0-9]+' -s 'perl stop.pl\n' -e sleeping -s '\x1a' -e 'Stopped.*stop.pl\s+\S+[$#] ' \
		-s 'jobs | wc -l\n' -e '\n2\r' -s 'bg %2\n' -e resumed -s 'kill %2; wait %2; echo "killed $?"\n' -e 'killed 143' \
		-s 'perl stop.pl\n' -e sleeping -s '\x1a' -e 'Stopped.*stop.pl\s+\S+[$#] ' -s 'fg\n' -e resumed -s '\x03' -e '[$#] ' \
		-s 'kill %1; (sleep 0.2; exit 4) & wait $!; echo "waited $?"\n' -e 'waited 4' -s 'exit 6\n' \
		-- "$AB" run "$@" -- bash --norc --noediting -i
	is "$status" 0 "bash: job control$with"
	like "$out" '^\[status 6\]' "bash: and its status$with"
	rm stop.pl
}

tests() {
	project
	with=
	compilers
	python
	git_works
	javascript
	others
	debuggers
	jobs_work
	with=' (strict)'
	compilers "${strict[@]}"
	python "${strict[@]}"
	git_works "${strict[@]}"
	jobs_work "${strict[@]}"
}

for_each_user tests
done_testing
