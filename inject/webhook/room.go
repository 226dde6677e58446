package webhook

import (
	"errors"
	"net/http"
)

// Bounds on reviews at once. Reading, changing and answering one takes about eleven times its size, so that all of these together stay
// below the 256 MiB that the chart gives an injector. Whoever may create pods in one namespace can send requests of 3 MiB as fast as the
// API server takes them; those queue behind each other, and not before the pods of others.
const (
	smallReview  = 256 << 10
	smallReviews = 64
	largeReviews = 2
)

// room is where reviews wait for their turn.
type room struct{ small, large chan struct{} }

func newRoom() *room {
	return &room{make(chan struct{}, smallReviews), make(chan struct{}, largeReviews)}
}

var errNoRoom = errors.New("too many reviews at once, and the API server waited no longer")

// read reads the request's body once there is room, and waits no longer than its context. The caller calls leave in any case. A small
// body is read first, so that who sends one slowly holds no place.
func (r *room) read(req *http.Request) (body []byte, leave func(), err error) {
	if req.ContentLength < 0 || req.ContentLength > smallReview {
		leave, err = enter(req, r.large)
		if err != nil {
			return nil, leave, err
		}
		body, err = readBody(req)
		return body, leave, err
	}
	body, err = readBody(req)
	if err != nil {
		return nil, func() {}, err
	}
	leave, err = enter(req, r.small)
	return body, leave, err
}

func enter(req *http.Request, places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-req.Context().Done():
		return func() {}, errNoRoom
	}
}
