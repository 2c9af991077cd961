package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// PostgreSQL of Debian's package, with its files in a folder that goes with it: it compares what FerretDB
// asks for by equal fields, of which over SQLite FerretDB itself reads a whole collection.
type postgres struct {
	folder  string
	socket  string
	process *exec.Cmd
}

// Starts it without any data, and waits until it takes connections.
func startPostgres() (*postgres, error) {
	folder, err := os.MkdirTemp("", "ferretdb-")
	if err != nil {
		return nil, err
	}
	// The path of a socket has 107 bytes at most, which the folder of a test may need itself.
	socket, err := os.MkdirTemp("/tmp", "ferretdb-")
	if err != nil {
		return nil, err
	}
	initdb, err := program("initdb", "-D", folder, "-U", user, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if err != nil {
		return nil, err
	}
	if said, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, said)
	}
	// A test ends processes, never the machine: nobody waits for the disk.
	process, err := program("postgres", "-D", folder, "-h", "", "-k", socket,
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off",
		"-c", "jit=off", "-c", "max_connections=200", "-c", "log_min_messages=panic")
	if err != nil {
		return nil, err
	}
	process.Stderr = os.Stderr
	// It ends with this process, however that ends.
	process.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	started := make(chan error)
	go func() {
		// The signal comes with the end of the thread that has started the process.
		runtime.LockOSThread()
		started <- process.Start()
		select {}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p := &postgres{folder, socket, process}
	if err := p.ready(time.Minute); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

const user = "ferretdb"

// One of its programs. PostgreSQL refuses to run as root: for root it runs in a namespace of users,
// where the same user has the name nobody.
func program(name string, arguments ...string) (*exec.Cmd, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("there is no %s of PostgreSQL (Debian: apt-get install postgresql)", name)
	}
	slices.Sort(found)
	command := exec.Command(found[len(found)-1], arguments...)
	command.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		const nobody = 65534
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: 0, Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: 0, Size: 1}}
	}
	return command, nil
}

// Where FerretDB finds it.
func (p *postgres) url() string {
	// Each connection of a client may hold one, for as long as it has not read all that it asked for.
	query := url.Values{"host": {p.socket}, "user": {user}, "pool_max_conns": {"150"}}
	return "postgres:///postgres?" + query.Encode()
}

// Waits until it takes connections.
func (p *postgres) ready(within time.Duration) error {
	for until := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		asked, err := program("pg_isready", "-q", "-h", p.socket, "-U", user)
		if err != nil || asked.Run() == nil {
			return err
		}
		if time.Now().After(until) {
			return errors.New("PostgreSQL takes no connections")
		}
	}
}

// Ends it at once, with whatever asks it; its files go.
func (p *postgres) end() {
	_ = p.process.Process.Signal(syscall.SIGINT)
	_ = p.process.Wait()
	_ = os.RemoveAll(p.socket)
	_ = os.RemoveAll(p.folder)
}
