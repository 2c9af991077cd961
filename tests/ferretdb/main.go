// Command ferretdb is a server that speaks MongoDB's protocol: the counterpart of the store on MongoDB in
// the tests, for MongoDB's own server is in no registry.
//
// Usage: ferretdb ADDRESS [FOLDER]. It prints its URI as soon as it listens and ends with SIGTERM.
// Its documents are in a PostgreSQL that goes when it ends, which finds what it is asked for; with a
// folder in SQLite files there, so that all of it is one process, which a test may pause or kill and
// start again.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	if len(os.Args) < 2 || len(os.Args) > 3 {
		log.Fatal("usage: ferretdb ADDRESS [FOLDER]")
	}
	if err := serve(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func serve(address string, folders []string) error {
	// Most of its time goes into reading whole collections, of small memory: collect it seldom.
	debug.SetGCPercent(1000)
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	config := &ferretdb.Config{
		Listener: ferretdb.ListenerConfig{TCP: "127.0.0.1:0"},
		Logger:   slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if len(folders) > 0 {
		// A test ends processes, never the machine: what the system has is kept, and nobody waits
		// for the disk.
		config.Handler = "sqlite"
		config.SQLiteURL = "file:" + folders[0] + "/?_pragma=synchronous(off)"
	} else {
		database, err := startPostgres()
		if err != nil {
			return err
		}
		defer database.end()
		config.Handler = "postgresql"
		config.PostgreSQLURL = database.url()
	}
	server, err := ferretdb.New(config)
	if err != nil {
		return err
	}
	done := make(chan error)
	go func() { done <- server.Run(ended) }()
	go new(updates).serve(ended, listener, server.MongoDBURI())
	fmt.Printf("mongodb://%s/\n", listener.Addr())
	return <-done
}
