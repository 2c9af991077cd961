// Command ferretdb is a server that speaks MongoDB's protocol over a PostgreSQL in a folder: the
// counterpart of the store on MongoDB in the tests, for MongoDB's own server is in no registry.
//
// Usage: ferretdb ADDRESS [FOLDER]. It prints its URI as soon as it listens and ends with SIGTERM.
// Without a folder it makes one, which goes when it ends.
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
	"time"

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
	if len(folders) == 0 {
		folder, err := os.MkdirTemp("", "ferretdb-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		folders = []string{folder}
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	database, err := startPostgres(folders[0])
	if err != nil {
		return err
	}
	defer database.end()
	if err := database.ready(time.Minute); err != nil {
		return err
	}
	server, err := ferretdb.New(&ferretdb.Config{
		Listener:      ferretdb.ListenerConfig{TCP: "127.0.0.1:0"},
		Logger:        slog.New(slog.NewTextHandler(io.Discard, nil)),
		Handler:       "postgresql",
		PostgreSQLURL: database.url(),
	})
	if err != nil {
		return err
	}
	done := make(chan error)
	go func() { done <- server.Run(ended) }()
	go new(updates).serve(ended, listener, server.MongoDBURI())
	fmt.Printf("mongodb://%s/\n", listener.Addr())
	return <-done
}
