package main

import (
	"bufio"
	"context"
	"net"
	"net/url"
	"sync"

	"github.com/FerretDB/wire"
)

// FerretDB reads a document, changes it and writes it back whole, so that of two updates of one
// document at a time one is lost. MongoDB's updates of one document are atomic, and the store rests on
// that: here updates of one collection are let through one after the other.
type updates struct {
	collections sync.Map
}

// The commands that change documents that are there.
var changing = map[string]bool{"update": true, "findAndModify": true, "findandmodify": true, "delete": true}

// Takes connections and passes each on to the server behind it.
func (u *updates) serve(ctx context.Context, listener net.Listener, uri string) error {
	server, err := url.Parse(uri)
	if err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		listener.Close()
	}()
	for {
		client, err := listener.Accept()
		if err != nil {
			return nil
		}
		go u.pass(client, server.Host)
	}
}

// Passes on one request after the other, each with its answer, until either side closes.
func (u *updates) pass(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	asked, answers := bufio.NewReader(client), bufio.NewReader(server)
	for {
		header, request, err := wire.ReadMessage(asked)
		if err != nil {
			return
		}
		turn := u.turn(request)
		turn.Lock()
		err = send(server, header, request)
		var answer wire.MsgBody
		if err == nil {
			header, answer, err = wire.ReadMessage(answers)
		}
		turn.Unlock()
		if err != nil || send(client, header, answer) != nil {
			return
		}
	}
}

func send(to net.Conn, header *wire.MsgHeader, body wire.MsgBody) error {
	writer := bufio.NewWriter(to)
	if err := wire.WriteMessage(writer, header, body); err != nil {
		return err
	}
	return writer.Flush()
}

// What a request has to wait for: the updates of its collection, or nothing.
func (u *updates) turn(request wire.MsgBody) sync.Locker {
	message, ok := request.(*wire.OpMsg)
	if !ok {
		return new(sync.Mutex)
	}
	command, err := message.RawSection0().Decode()
	if err != nil || !changing[command.Command()] {
		return new(sync.Mutex)
	}
	collection := [2]any{command.Get("$db"), command.Get(command.Command())}
	turn, _ := u.collections.LoadOrStore(collection, new(sync.Mutex))
	return turn.(*sync.Mutex)
}
