// Command ferretdb is a server that speaks MongoDB's protocol: the counterpart of the store on MongoDB in
// the tests, for MongoDB's own server is in no registry.
//
// Usage: ferretdb [-postgres] ADDRESS [FOLDER]. It prints its URI as soon as it listens and ends with
// SIGTERM. Its documents are in SQLite files in the folder, or in one that goes when it ends: all of it is
// one process, which a test may pause or kill and start again. With -postgres they are in a PostgreSQL that
// goes when it ends, which finds more of what it is asked for without reading everything.
package main

import (
	"context"
	"flag"
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
	overPostgres := flag.Bool("postgres", false, "over a PostgreSQL instead of SQLite")
	flag.Parse()
	if flag.NArg() < 1 || flag.NArg() > 2 || *overPostgres && flag.NArg() > 1 {
		log.Fatal("usage: ferretdb [-postgres] ADDRESS [FOLDER]")
	}
	if err := serve(flag.Arg(0), flag.Args()[1:], *overPostgres); err != nil {
		log.Fatal(err)
	}
}

func serve(address string, folders []string, overPostgres bool) error {
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
	if overPostgres {
		database, err := startPostgres()
		if err != nil {
			return err
		}
		defer database.end()
		config.Handler = "postgresql"
		config.PostgreSQLURL = database.url()
	} else {
		if len(folders) == 0 {
			folder, err := os.MkdirTemp("", "ferretdb-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(folder)
			folders = []string{folder}
		}
		// A test ends processes, never the machine: what the system has is kept, and nobody waits
		// for the disk.
		config.Handler = "sqlite"
		config.SQLiteURL = "file:" + folders[0] + "/?_pragma=synchronous(off)"
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
