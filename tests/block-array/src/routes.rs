//! The REST API of an array.

use super::Shared;
use crate::faults::Faults;
use crate::records::{Host, Kind, Mode, NewVolume, Object, Qos};
use crate::refusal::{Answer, Refusal, unprocessable};
use axum::body::Body;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;

/// The header with the token of a session.
const TOKEN: &str = "x-auth-token";

/// Entries of a page if the caller does not say.
const PAGE_ENTRIES: usize = 100;

#[derive(Deserialize)]
struct Login {
    user: String,
    password: String,
}

#[derive(Deserialize)]
struct NewSnapshot {
    name: String,
    volume: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    bytes: Option<u64>,
    qos: Option<Qos>,
}

#[derive(Deserialize)]
struct Portal {
    up: bool,
}

#[derive(Serialize)]
struct Page {
    items: Vec<Object>,
    /// The marker of the next page.
    next: Option<String>,
}

/// All routes. Those below `/api/` meet the faults that are on, and need a session, but for the login.
pub(super) fn router(service: Shared) -> Router {
    let guarded = Router::new()
        .route("/api/session", delete(logout))
        .route("/api/capacity", get(capacity))
        .route("/api/volumes", get(list_volumes).post(create_volume))
        .route(
            "/api/volumes/{id}",
            get(get_volume).patch(change_volume).delete(delete_volume),
        )
        .route("/api/volumes/{id}/hosts", delete(detach_all))
        .route("/api/volumes/{id}/hosts/{host}", put(attach).delete(detach))
        .route("/api/snapshots", get(list_snapshots).post(create_snapshot))
        .route(
            "/api/snapshots/{id}",
            get(get_snapshot).delete(delete_snapshot),
        )
        .route("/api/hosts", get(list_hosts))
        .route(
            "/api/hosts/{name}",
            get(get_host).put(put_host).delete(delete_host),
        )
        .route_layer(from_fn_with_state(service.clone(), session));
    let api = Router::new()
        .route("/api/sessions", post(login))
        .merge(guarded)
        .route_layer(from_fn_with_state(service.clone(), meet_faults));
    let faults = get(get_faults).put(put_faults).delete(delete_faults);
    Router::new()
        .route("/faults", faults)
        .route("/faults/portals/{index}", put(set_portal))
        .merge(api)
        .with_state(service)
}

/// Does to a request what the faults say that are on.
async fn meet_faults(State(service): State<Shared>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    let fate = service.lock().faults.next(method, path);
    tokio::time::sleep(fate.delay).await;
    if let Some(status) = fate.refuse {
        return Refusal::new(status, "refused by a fault").into_response();
    }
    let answer = next.run(request).await;
    match fate.is_answer_lost {
        true => lost(),
        false => answer,
    }
}

/// An answer whose body fails before its first byte: the server closes the connection and sends nothing.
fn lost() -> Response {
    let failed = async { Err::<String, _>(io::Error::other("lost by a fault")) };
    Response::new(Body::from_stream(futures::stream::once(failed)))
}

async fn session(
    State(service): State<Shared>,
    headers: HeaderMap,
    request: Request,
    next: Next,
) -> Answer<Response> {
    let is_live = service.lock().store.has_session(token(&headers));
    if !is_live {
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, "log in first"));
    }
    Ok(next.run(request).await)
}

async fn login(
    State(service): State<Shared>,
    Json(login): Json<Login>,
) -> Answer<impl IntoResponse> {
    let token = service.lock().store.login(&login.user, &login.password)?;
    Ok((StatusCode::CREATED, Json(json!({ "token": token }))))
}

async fn logout(State(service): State<Shared>, headers: HeaderMap) -> StatusCode {
    service.lock().store.logout(token(&headers));
    StatusCode::NO_CONTENT
}

async fn capacity(State(service): State<Shared>) -> impl IntoResponse {
    Json(json!({ "free": service.lock().store.free_bytes() }))
}

async fn list_volumes(State(service): State<Shared>, RawQuery(query): RawQuery) -> Json<Page> {
    list(&service, Kind::Volume, query)
}

async fn list_snapshots(State(service): State<Shared>, RawQuery(query): RawQuery) -> Json<Page> {
    list(&service, Kind::Snapshot, query)
}

async fn create_volume(
    State(service): State<Shared>,
    Json(new): Json<NewVolume>,
) -> Answer<impl IntoResponse> {
    let created = service.run(move |it| it.create_volume(new)).await?;
    Ok(created_object(&service, created))
}

async fn create_snapshot(
    State(service): State<Shared>,
    Json(new): Json<NewSnapshot>,
) -> Answer<impl IntoResponse> {
    let created = service
        .run(move |it| it.create_snapshot(new.name, &new.volume))
        .await?;
    Ok(created_object(&service, created))
}

async fn get_volume(State(service): State<Shared>, Path(id): Path<String>) -> Answer<Json<Object>> {
    service.lock().get(Kind::Volume, &id).map(Json)
}

async fn get_snapshot(
    State(service): State<Shared>,
    Path(id): Path<String>,
) -> Answer<Json<Object>> {
    service.lock().get(Kind::Snapshot, &id).map(Json)
}

async fn change_volume(
    State(service): State<Shared>,
    Path(id): Path<String>,
    Json(change): Json<Change>,
) -> Answer<Json<Object>> {
    let changed = service.run(move |it| it.change(&id, change.bytes, change.qos));
    changed.await.map(Json)
}

async fn delete_volume(
    State(service): State<Shared>,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    let deleted = service.run(move |it| it.delete(Kind::Volume, &id));
    deleted.await.map(|()| StatusCode::NO_CONTENT)
}

async fn delete_snapshot(
    State(service): State<Shared>,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    let deleted = service.run(move |it| it.delete(Kind::Snapshot, &id));
    deleted.await.map(|()| StatusCode::NO_CONTENT)
}

async fn attach(
    State(service): State<Shared>,
    Path((id, host)): Path<(String, String)>,
    Json(mode): Json<Mode>,
) -> Answer<Json<Object>> {
    let attached = service.run(move |it| it.attach(&id, &host, mode));
    attached.await.map(Json)
}

async fn detach(
    State(service): State<Shared>,
    Path((id, host)): Path<(String, String)>,
) -> Answer<StatusCode> {
    let detached = service.run(move |it| it.detach(&id, Some(&host)));
    detached.await.map(|()| StatusCode::NO_CONTENT)
}

async fn detach_all(State(service): State<Shared>, Path(id): Path<String>) -> Answer<StatusCode> {
    let detached = service.run(move |it| it.detach(&id, None));
    detached.await.map(|()| StatusCode::NO_CONTENT)
}

async fn list_hosts(State(service): State<Shared>) -> Json<Value> {
    let service = service.lock();
    let items: Vec<_> = service
        .store
        .hosts()
        .map(|(name, host)| shown(name, host))
        .collect();
    Json(json!({ "items": items }))
}

async fn get_host(State(service): State<Shared>, Path(name): Path<String>) -> Answer<Json<Value>> {
    let service = service.lock();
    let host = service.store.host(&name)?;
    Ok(Json(shown(&name, host)))
}

async fn put_host(
    State(service): State<Shared>,
    Path(name): Path<String>,
    Json(host): Json<Host>,
) -> Answer<Json<Value>> {
    let put = service.run(move |it| {
        let host = it.put_host(&name, host)?;
        Ok(shown(&name, &host))
    });
    put.await.map(Json)
}

async fn delete_host(
    State(service): State<Shared>,
    Path(name): Path<String>,
) -> Answer<StatusCode> {
    let deleted = service.run(move |it| it.delete_host(&name));
    deleted.await.map(|()| StatusCode::NO_CONTENT)
}

async fn get_faults(State(service): State<Shared>) -> Json<Faults> {
    Json(service.lock().faults.clone())
}

async fn put_faults(
    State(service): State<Shared>,
    Json(faults): Json<Faults>,
) -> Answer<Json<Faults>> {
    faults.check().map_err(unprocessable)?;
    service.lock().faults = faults.clone();
    Ok(Json(faults))
}

async fn delete_faults(State(service): State<Shared>) -> StatusCode {
    service.lock().faults = Faults::default();
    StatusCode::NO_CONTENT
}

async fn set_portal(
    State(service): State<Shared>,
    Path(index): Path<usize>,
    Json(portal): Json<Portal>,
) -> Answer<StatusCode> {
    let set = service.run(move |it| it.set_portal(index, portal.up));
    set.await.map(|()| StatusCode::NO_CONTENT)
}

/// Answers a new volume or snapshot, whose copy may have to be made.
fn created_object(
    service: &Shared,
    (object, copy): (Object, Option<crate::Copy>),
) -> impl IntoResponse + use<> {
    if let Some(copy) = copy {
        service.begin(copy);
    }
    (StatusCode::CREATED, Json(object))
}

fn list(service: &Shared, kind: Kind, query: Option<String>) -> Json<Page> {
    let query = parameters(query.as_deref().unwrap_or_default());
    let text = |name: &str| query.get(name).map(String::as_str);
    let limit = text("limit").and_then(|it| it.parse().ok());
    let service = service.lock();
    let (items, more) = service.store.list(
        kind,
        text("name"),
        text("volume"),
        text("marker").unwrap_or_default(),
        limit.unwrap_or(PAGE_ENTRIES),
    );
    let items: Vec<_> = items.into_iter().map(|it| service.shown(it)).collect();
    let last = items.last().filter(|_| more);
    let next = last.map(|last| last.id.clone());
    Json(Page { items, next })
}

/// A host as it is answered: without its password.
fn shown(name: &str, host: &Host) -> Value {
    let user = host.chap.as_ref().map(|chap| &chap.user);
    json!({ "name": name, "iqn": host.iqn, "nqn": host.nqn, "chapUser": user })
}

fn parameters(query: &str) -> BTreeMap<String, String> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_decode_str(value).decode_utf8_lossy();
        Some((name.to_owned(), value.into_owned()))
    };
    query.split('&').filter_map(pair).collect()
}

fn token(headers: &HeaderMap) -> &str {
    let value = headers.get(TOKEN).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}
