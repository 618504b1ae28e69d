# SPDX-License-Identifier: MIT
"""Databases and caches: servers on the loopback or a socket, their clients, some load."""
from stock.case import Case

# A free port of the loopback, in $port.
PORT = r"""port=$(perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen=>1,LocalAddr=>"127.0.0.1")->sockport')
"""

CASES = [
    Case("sqlite3", "50,000 rows, index, join, window functions, integrity check",
         ("sqlite3",), ("sqlite3",), ("69993.0",), cheap=True,
         script=r"""
sqlite3 t.db <<'END'
create table t(id integer primary key, g int, v real);
with recursive n(i) as (select 1 union all select i+1 from n where i<50000)
  insert into t select i, i%97, i*0.5 from n;
create index x on t(g, v);
select g, count(*), sum(v) from t group by g order by 3 desc limit 5;
select count(*) from t a join t b on a.id=b.g;
select id, sum(v) over (order by id rows 3 preceding) from t where id%9999=0;
pragma integrity_check;
END
sqlite3 t.db 'select * from missing'; echo "status $?"
"""),
    Case("redis", "server on the loopback, redis-cli: lists, Lua, 20,000 keys",
         ("redis-server", "redis-tools", "perl"), ("redis-server", "redis-cli"), ("PONG",), cheap=True,
         script=r"""
port=$(perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen=>1,LocalAddr=>"127.0.0.1")->sockport')
timeout 30 redis-server --bind 127.0.0.1 --port "$port" --save '' --appendonly no > log 2>&1 &
server=$!
c() { redis-cli -p "$port" "$@"; }
for i in $(seq 100); do c ping > pong 2>&1 && break; sleep 0.05; done; cat pong
c set k v; c get k; c incrby n 41; c incr n; c rpush l a b c; c lrange l 0 -1
c eval 'local s = 0; for i = 1, 20000 do redis.call("set", "key:" .. i, i); s = s + i end; return s' 0
c dbsize; c zadd z 2 b 1 a; c zrange z 0 -1 withscores; c hincrbyfloat h f 1.5; c wrong
c shutdown nosave; wait $server; echo "status $?"; grep -c 'Ready to accept' log
"""),
    Case("redis-benchmark", "30,000 requests, 20 clients, pipelined; saves, restarts and loads its files",
         ("redis-server", "redis-tools", "perl"), ("redis-server", "redis-cli", "redis-benchmark"),
         ("keys 5", "Background saving terminated with success"), cheap=True, script=PORT + r"""
start() { timeout 60 redis-server --bind 127.0.0.1 --port "$port" --appendonly yes --io-threads 2 >> log 2>&1 & server=$!
    for i in $(seq 100); do [ "$(c ping 2>&1)" = PONG ] && break; sleep 0.05; done; }
c() { redis-cli -p "$port" "$@"; }
start; redis-benchmark -p "$port" -n 5000 -c 20 -P 8 -q -t set,get,incr,lpush,zadd,mset --csv | cut -d, -f1
# redis 6.0's benchmark pushes some more than it was asked to, as they come.
c keys '*' | sort; [ "$(c llen mylist)" -ge 5000 ] && echo filled; c set a b; c bgsave
for i in $(seq 100); do grep -q 'terminated with success' log && break; sleep 0.05; done
c shutdown; wait $server; echo "status $?"; start; echo "keys $(c dbsize | tr -dc 0-9)"
c get a; c bgrewriteaof; c shutdown; wait $server; echo "status $?"
grep -o 'Background saving terminated with success\|Ready to accept' log; ls
"""),
    Case("postgresql", "initdb, server, psql, pgbench with 4 clients, an extension, crash recovery",
         ("postgresql", "postgresql-contrib", "perl"),
         ("/usr/lib/postgresql", "psql", "pgbench", "runuser"), ("pgbench sum 4", "recovered 10", "99"),
         under=("initdb", "postgres", "pg_ctl", "psql", "pgbench"), root=True, timeout=180,
         script=r"""
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1); export PATH=$bin:$PATH; mkdir d; chown -R postgres .
as() { runuser -u postgres -- env HOME="$PWD" PGHOST="$PWD" PGDATABASE=postgres "$@"; }
as initdb -D d -N --no-locale -E UTF8 -A trust > log 2>&1; echo "initdb $?"
start() { as pg_ctl -D d -l d/log -w -s -o "-k $PWD -h ''" start; echo "start $?"; }
start; as pgbench -i -q -s 1 > /dev/null 2>&1; echo "pgbench $?"
as pgbench -c 4 -j 2 -t 200 -n 2>&1 | grep -o 'number of transactions actually processed: .*\|number of failed.*'
as psql -At <<'END'
select 'pgbench sum ' || count(*) / 200 from pgbench_history;
select sum(tbalance) = (select sum(abalance) from pgbench_accounts) from pgbench_tellers;
create extension pgcrypto; select encode(digest('mvld', 'sha256'), 'hex');
create table t as select i, md5(i::text) m from generate_series(1, 20000) i; create index on t(m);
select count(*), min(m) from t where m like 'ab%'; select jit, n from (select pg_jit_available() is not null jit, 99 n) x;
do $$ begin perform 1 / 0; exception when division_by_zero then raise notice 'caught'; end $$;
create function f(int) returns int language plpgsql as 'begin return $1 * 2; end'; select sum(f(i)) from t;
select * from missing;
create table r as select generate_series(1, 10);
END
as pg_ctl -D d -m immediate -s stop; start; as psql -Atc "select 'recovered ' || count(*) from r"
as pg_dump -s -t r | grep -c 'CREATE TABLE'; as pg_ctl -D d -m fast -w -s stop; echo "status $?"
"""),
    Case("mariadb", "install, server on a socket, client, load with mysqlslap, dump and restore",
         ("mariadb-server", "mariadb-client"), ("mariadbd", "mariadb", "mariadb-slap", "mariadb-install-db"),
         ("sum 333333330000", "restored 1000"), timeout=180, root=True,
         under=("mariadbd", "mariadb", "mariadb-slap", "mariadb-dump"), script=r"""
chmod 711 . ..; chmod 1777 "$TMPDIR"; mkdir d; chown mysql d; s=$PWD/d/s
mariadb-install-db --no-defaults --user=mysql --datadir="$PWD/d" --auth-root-authentication-method=normal > log 2>&1
s0=$?; echo "install $s0"; [ $s0 = 0 ] || cat log
mariadbd --no-defaults --user=mysql --datadir="$PWD/d" --socket="$s" --skip-networking >> log 2>&1 & server=$!
c() { p=$1; shift; "$p" --no-defaults -u root -S "$s" "$@"; }
for i in $(seq 300); do c mariadb-admin ping > /dev/null 2>&1 && break; sleep 0.1; done; c mariadb-admin ping
c mariadb -N <<'END'
create database b; use b; create table t(i int primary key, v bigint, k varchar(40), index(k)) engine=innodb;
insert into t select seq, seq * seq, md5(seq) from seq_1_to_10000 limit 1000;
select 'sum', sum(v), count(distinct k) from t; select json_value('{"a": [1, 2]}', '$.a[1]'), sha2('mvld', 256);
start transaction; delete from t; rollback; select count(*) from t where k like 'a%';
END
c mariadb -N b -e "select concat('sum ', sum(seq * seq) - 50005000) from seq_1_to_10000"
c mariadb-slap --concurrency=4 --iterations=2 --number-of-queries=400 --auto-generate-sql | grep -o 'Number of clients.*'
c mariadb-dump --skip-dump-date b t > dump.sql; c mariadb -e 'create database z'; c mariadb z < dump.sql
c mariadb -N z -e "select concat('restored ', count(*)) from t"; c mariadb -e 'select * from missing.t'; echo "status $?"
c mariadb-admin shutdown; wait $server; echo "status $?"; grep -c 'ready for connections' log
"""),
    Case("memcached", "a server with 4 threads; 4 clients store and fetch 4000 values",
         ("memcached", "perl"), ("memcached", "perl"), ("fetched 4000", "curr_items 4000"),
         script=PORT + r"""
timeout 60 memcached -u nobody -l 127.0.0.1 -p "$port" -t 4 -m 64 2> log & server=$!
cat > c.pl <<'END'
use IO::Socket::INET; my ($port) = @ARGV; my $s;
sub dial { for (1 .. 100) { my $c = IO::Socket::INET->new("127.0.0.1:$port"); return $c if $c; select undef, undef, undef, 0.05 } die }
my @k; for my $n (1 .. 4) { pipe my $r, my $w; if (!fork) { my $c = dial; my $ok = 0;
    for my $i (1 .. 1000) { my $v = "v$n-$i" x 20; print $c "set k$n-$i 0 0 " . length($v) . "\r\n$v\r\n"; <$c>;
        print $c "get k$n-$i\r\n"; <$c>; my $l = <$c>; <$c>; $ok++ if $l eq "$v\r\n" }
    print $w "$ok\n"; exit } close $w; push @k, $r }
my $t = 0; for my $r (@k) { $t += <$r> } print "fetched $t\n"; $s = dial; print $s "stats\r\n";
while (<$s>) { last if /^END/; print "$1 $2\n" if /(curr_items|get_hits|threads) (\d+)/ }
print $s "get nothing\r\nwrong\r\n"; print scalar <$s>, scalar <$s>;
END
perl c.pl "$port"; kill $server; wait $server 2> /dev/null; echo "status $?"; cat log
"""),
]
