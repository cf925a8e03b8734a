package faults

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// PostgreSQL and the servers are killed with SIGKILL again and again during mixed writes of several workers: everything
// acknowledged is there, no batch is there by half, and everything holds. The long form is 2,000 writes.
func TestDatabaseAndServersKilled(t *testing.T) {
	n, kills := 800, 4
	if long() {
		n, kills = 2000, 20
	}
	c := newCluster(t)
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	c.sql("postgres", "CREATE DATABASE "+testDatabase)
	b, servers, people := found(t, c.url(testDatabase), 2)
	done := make(chan struct{})
	go func() {
		defer close(done)
		traffic(t, b, people, 6, n, "run", true)
	}()
	start := b.count()
	for i := range kills {
		for b.count() < start+(i+1)*n/(kills+2) {
			select {
			case <-done:
				t.Fatal(errNoTime)
			case <-time.After(time.Duration(rand.IntN(4000)) * time.Microsecond):
			}
		}
		var err error
		if i%2 == 0 {
			if err = c.kill(); err == nil {
				err = c.start()
			}
		} else {
			err = servers[rand.IntN(len(servers))].again()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	<-done
	audit(t, b, people, c.url(testDatabase))
}

// The primary of a pair with a synchronous standby is killed under load and the standby promoted. The servers, which were
// given both addresses, go on by themselves; every write that was acknowledged is on the new primary.
func TestFailover(t *testing.T) {
	n := 300
	if long() {
		n = 2000
	}
	primary := newCluster(t, "wal_level=replica", "max_wal_senders=5", "wal_keep_size=256MB")
	if err := primary.start(); err != nil {
		t.Fatal(err)
	}
	primary.sql("postgres", "CREATE DATABASE "+testDatabase)
	standby := primary.standby()
	both := fmt.Sprintf("postgres://forge@%s,%s/%s?sslmode=disable&target_session_attrs=read-write", primary.address(), standby.address(), testDatabase)
	b, _, people := found(t, both, 2)
	done := make(chan struct{})
	go func() {
		defer close(done)
		traffic(t, b, people, 6, n, "run", true)
	}()
	for start := b.count(); b.count() < start+n/3; {
		select {
		case <-done:
			t.Fatal(errNoTime)
		case <-time.After(time.Millisecond):
		}
	}
	if err := primary.kill(); err != nil {
		t.Fatal(err)
	}
	down := time.Now()
	before := b.count()
	standby.run("pg_ctl", "promote", "--pgdata="+standby.data, "--wait", "--timeout=60")
	promoted := time.Since(down)
	for b.count() <= before+6 { // those that were on their way may be counted late
		select {
		case <-done:
			t.Fatal(errNoTime)
		case <-time.After(time.Millisecond):
		}
	}
	back := time.Since(down)
	<-done
	t.Logf("promoted %s after the kill, writes acknowledged again after %s", promoted.Round(time.Millisecond), back.Round(time.Millisecond))
	if back > 30*time.Second {
		t.Errorf("service was away for %s, stated is less than 30 s", back)
	}
	audit(t, b, people, both)
}
