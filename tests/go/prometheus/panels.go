// The panels of a dashboard over a running host: its queries as Prometheus answers them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/teststorage"
)

// How often a target of panels is scraped, and its curves have a point: the load of a test may end within a second.
const panelPeriod = 200 * time.Millisecond

// A curve of a query: its labels, and its values by the time in seconds since the first scrape.
type curve struct {
	Labels map[string]string `json:"labels"`
	Points [][2]float64      `json:"points"`
}

// Scrapes a target until standard input ends, and then once more. Its first line is a JSON list of queries; prints the curves of each.
func panels(target string) error {
	at, err := url.Parse(target)
	if err != nil {
		return err
	}
	input := bufio.NewReader(os.Stdin)
	line, err := input.ReadBytes('\n')
	if err != nil {
		return err
	}
	var queries []string
	if err := json.Unmarshal(line, &queries); err != nil {
		return err
	}
	store, err := teststorage.NewWithError()
	if err != nil {
		return err
	}
	defer store.Close()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, input)
		close(ended)
	}()
	ctx, begun := context.Background(), time.Now()
	for isLast := false; ; {
		if err := scrape(ctx, store, at, time.Now()); err != nil {
			return err
		}
		if isLast {
			break
		}
		select {
		case <-ended:
			isLast = true
		case <-time.After(panelPeriod):
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1_000_000,
		Timeout:    time.Minute,
		Parser:     parser.NewParser(parser.Options{}),
	})
	all := [][]curve{}
	for _, text := range queries {
		query, err := engine.NewRangeQuery(ctx, store, nil, text, begun, time.Now(), panelPeriod)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		result := query.Exec(ctx)
		matrix, err := result.Matrix()
		if err := errors.Join(result.Err, err); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		curves := []curve{}
		for _, series := range matrix {
			one := curve{Labels: series.Metric.Map()}
			for _, point := range series.Floats {
				// JSON has no other numbers.
				if point.F-point.F == 0 {
					one.Points = append(one.Points, [2]float64{float64(point.T-begun.UnixMilli()) / 1000, point.F})
				}
			}
			if len(one.Points) > 0 {
				curves = append(curves, one)
			}
		}
		all = append(all, curves)
		query.Close()
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}
