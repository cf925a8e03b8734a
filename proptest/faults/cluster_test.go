package faults

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
	"github.com/jackc/pgx/v5"
)

// cluster is a PostgreSQL of this machine's own programs, which a test may kill.
type cluster struct {
	t    testing.TB
	bin  string
	data string
	port int
	as   *syscall.Credential // nil where this process may run a server itself
}

// programs is the folder of initdb and postgres, or why there is none.
func programs(t testing.TB) string {
	t.Helper()
	if reason := os.Getenv("FORGE_TEST_POSTGRES_SKIP"); reason != "" {
		pgtest.Missing(t, reason)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1])
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	pgtest.Missing(t, "initdb is not installed, so there is none that may be killed (Debian: postgresql)")
	return ""
}

// newCluster makes one, without starting it. settings are lines of postgresql.conf.
func newCluster(t testing.TB, settings ...string) *cluster {
	c := emptyCluster(t)
	c.run("initdb", "--pgdata="+c.data, "--username=forge", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	c.set(append(settings, "max_connections=200", "shared_buffers=64MB", "unix_socket_directories=''", "listen_addresses='127.0.0.1'")...)
	return c
}

// emptyCluster is a folder and a port for one.
func emptyCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{t: t, bin: programs(t)}
	dir, err := os.MkdirTemp("", "forge-cluster-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.running() {
			_ = c.kill()
		}
		_ = os.RemoveAll(dir)
	})
	c.data = filepath.Join(dir, "data")
	if os.Getuid() == 0 { // the server refuses to run as root
		u, err := user.Lookup("postgres")
		if err != nil {
			pgtest.Missing(t, "it does not run as root, and there is no other user for it: "+err.Error())
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		c.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.port = ln.Addr().(*net.TCPAddr).Port
	_ = ln.Close()
	return c
}

func (c *cluster) run(program string, args ...string) {
	c.t.Helper()
	if out, err := c.try(program, args...); err != nil {
		c.t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

func (c *cluster) try(program string, args ...string) ([]byte, error) {
	cmd := exec.Command(filepath.Join(c.bin, program), args...)
	cmd.Dir = filepath.Dir(c.data)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	return cmd.CombinedOutput()
}

func (c *cluster) set(lines ...string) {
	c.t.Helper()
	f, err := os.OpenFile(filepath.Join(c.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	for _, line := range append(lines, fmt.Sprintf("port=%d", c.port)) {
		if _, err := fmt.Fprintln(f, line); err != nil {
			c.t.Fatal(err)
		}
	}
}

// start waits until the server answers. After a kill it recovers first.
func (c *cluster) start() error {
	out, err := c.try("pg_ctl", "start", "--pgdata="+c.data, "--wait", "--timeout=120", "--log="+c.data+".log")
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w\n%s", err, out)
	}
	return nil
}

// kill ends the server and all its processes with SIGKILL.
func (c *cluster) kill() error {
	pid, err := c.pid()
	if err != nil {
		return err
	}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	pids := []int{pid}
	for _, one := range strings.Fields(string(children)) {
		if n, err := strconv.Atoi(one); err == nil {
			pids = append(pids, n)
		}
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, pid := range pids {
		for syscall.Kill(pid, 0) == nil {
			time.Sleep(5 * time.Millisecond)
		}
	}
	return nil
}

func (c *cluster) pid() (int, error) {
	text, err := os.ReadFile(filepath.Join(c.data, "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strconv.Atoi(first)
}

func (c *cluster) running() bool {
	pid, err := c.pid()
	return err == nil && syscall.Kill(pid, 0) == nil
}

const testDatabase = "forge_test"

func (c *cluster) address() string { return fmt.Sprintf("127.0.0.1:%d", c.port) }

func (c *cluster) url(database string) string {
	return "postgres://forge@" + c.address() + "/" + database + "?sslmode=disable"
}

func (c *cluster) sql(database, text string) {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.url(database))
	if err == nil {
		defer func() { _ = conn.Close(context.Background()) }()
		_, err = conn.Exec(c.t.Context(), text)
	}
	if err != nil {
		c.t.Fatalf("%s: %v", text, err)
	}
}

// standby copies a running cluster and follows it; commits of the primary wait for it from then on.
func (c *cluster) standby() *cluster {
	c.t.Helper()
	s := emptyCluster(c.t)
	s.run("pg_basebackup", "--pgdata="+s.data, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast",
		"--dbname="+strings.Replace(c.url("postgres"), "sslmode=disable", "application_name=standby", 1))
	s.set("synchronous_standby_names=''") // once promoted it is alone
	if err := s.start(); err != nil {
		c.t.Fatal(err)
	}
	c.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
	c.sql("postgres", "SELECT pg_reload_conf()")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := pgx.Connect(c.t.Context(), c.url("postgres"))
		var sync int
		if err == nil {
			err = conn.QueryRow(c.t.Context(), `SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`).Scan(&sync)
			_ = conn.Close(context.Background())
		}
		if err == nil && sync == 1 {
			return s
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("the standby is not synchronous after a minute: %v", err)
		}
	}
}

// awaitPrimary waits until recovery is over.
func (c *cluster) awaitPrimary() {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := pgx.Connect(c.t.Context(), c.url("postgres"))
		standby := true
		if err == nil {
			err = conn.QueryRow(c.t.Context(), `SELECT pg_is_in_recovery()`).Scan(&standby)
			_ = conn.Close(context.Background())
		}
		if err == nil && !standby {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("still recovering after a minute: %v", err)
		}
	}
}
