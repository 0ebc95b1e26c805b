// A Prometheus with one target: it scrapes, stores and evaluates as often as a test wants to look.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
)

const (
	// How often it scrapes, and evaluates.
	period = time.Second
	// How long a scrape may take: Prometheus' default.
	patience = 10 * time.Second
	// How long the same alerts may fire before it gives up: a busy machine, on which a test waits for others.
	longest = 10 * time.Minute
	// What Prometheus asks for.
	accepted = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)

// What is printed of an alert.
type alert struct {
	Labels      labels.Labels `json:"labels"`
	Annotations labels.Labels `json:"annotations"`
}

// Scrapes a target until standard input ends, and prints the alerts of a file of rules that fire: a line after the first scrape, and one whenever
// others do.
func watch(file, target string) error {
	at, err := url.Parse(target)
	if err != nil {
		return err
	}
	store, err := teststorage.NewWithError()
	if err != nil {
		return err
	}
	defer store.Close()
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1_000_000,
		Timeout:    time.Minute,
		Parser:     parser.NewParser(parser.Options{}),
	})
	groups, err := groupsOf(file, engine, store)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	ctx := context.Background()
	said, changed := "", time.Now()
	for {
		now := time.Now()
		// A target that does not answer is asked again.
		if err := scrape(ctx, store, at, now); err != nil {
			fmt.Fprintln(os.Stderr, err)
		} else {
			if err := evaluate(ctx, groups, now); err != nil {
				return err
			}
			firing := []alert{}
			for _, it := range alerts(groups) {
				firing = append(firing, alert{Labels: it.Labels, Annotations: it.Annotations})
			}
			line, err := json.Marshal(firing)
			if err != nil {
				return err
			}
			if said != string(line) {
				said, changed = string(line), now
				fmt.Println(said)
			}
		}
		if now.Sub(changed) > longest {
			return fmt.Errorf("the same alerts fired for %v: %s", longest, said)
		}
		select {
		case <-ended:
			return nil
		case <-time.After(period):
		}
	}
}

// Adds the series of a target to the store.
func scrape(ctx context.Context, store storage.Appendable, target *url.URL, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", accepted)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", target, response.Status)
	}
	scraped, err := textparse.New(text, response.Header.Get("Content-Type"), nil, textparse.ParserOptions{})
	if err != nil {
		return err
	}
	appender := store.Appender(ctx)
	for {
		switch entry, err := scraped.Next(); {
		case errors.Is(err, io.EOF):
			return appender.Commit()
		case err != nil:
			return errors.Join(err, appender.Rollback())
		case entry == textparse.EntrySeries:
			var of labels.Labels
			scraped.Labels(&of)
			series := labels.NewBuilder(of).Set("instance", target.Host).Labels()
			_, _, value := scraped.Series()
			if _, err := appender.Append(0, series, now.UnixMilli(), value); err != nil {
				return errors.Join(err, appender.Rollback())
			}
		}
	}
}
