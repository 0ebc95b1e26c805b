//! The REST API of an array.

use super::store::{Kind, Object, Refusal};
use super::{PAGE_ENTRIES, Shared};
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// The header with the token of a session.
const TOKEN: &str = "x-auth-token";

#[derive(Deserialize)]
struct Login {
    user: String,
    password: String,
}

#[derive(Deserialize)]
struct NewVolume {
    name: String,
    bytes: u64,
    snapshot: Option<String>,
}

#[derive(Deserialize)]
struct NewSnapshot {
    name: String,
    volume: String,
}

#[derive(Deserialize)]
struct Size {
    bytes: u64,
}

#[derive(Deserialize)]
struct Mode {
    readonly: bool,
}

#[derive(Serialize)]
struct Page {
    items: Vec<Object>,
    /// The marker of the next page.
    next: Option<String>,
}

type Answer<T> = Result<T, Refusal>;

/// All routes; each but the login needs a session.
pub(super) fn router(store: Shared) -> Router {
    let guarded = Router::new()
        .route("/api/session", delete(logout))
        .route("/api/capacity", get(capacity))
        .route("/api/volumes", get(list_volumes).post(create_volume))
        .route(
            "/api/volumes/{id}",
            get(get_volume).patch(grow).delete(delete_volume),
        )
        .route("/api/volumes/{id}/hosts", delete(detach_all))
        .route("/api/volumes/{id}/hosts/{host}", put(attach).delete(detach))
        .route("/api/snapshots", get(list_snapshots).post(create_snapshot))
        .route(
            "/api/snapshots/{id}",
            get(get_snapshot).delete(delete_snapshot),
        )
        .route_layer(from_fn_with_state(store.clone(), session));
    Router::new()
        .route("/api/sessions", post(login))
        .merge(guarded)
        .with_state(store)
}

async fn session(
    State(store): State<Shared>,
    headers: HeaderMap,
    request: Request,
    next: Next,
) -> Answer<Response> {
    let is_live = store.lock().has_session(token(&headers));
    if !is_live {
        return Err(Refusal(StatusCode::UNAUTHORIZED, "log in first"));
    }
    Ok(next.run(request).await)
}

async fn login(State(store): State<Shared>, Json(login): Json<Login>) -> Answer<impl IntoResponse> {
    let token = store.lock().login(&login.user, &login.password)?;
    Ok((StatusCode::CREATED, Json(json!({ "token": token }))))
}

async fn logout(State(store): State<Shared>, headers: HeaderMap) -> StatusCode {
    store.lock().logout(token(&headers));
    StatusCode::NO_CONTENT
}

async fn capacity(State(store): State<Shared>) -> impl IntoResponse {
    Json(json!({ "free": store.lock().free_bytes() }))
}

async fn list_volumes(State(store): State<Shared>, RawQuery(query): RawQuery) -> Json<Page> {
    list(&store, Kind::Volume, query)
}

async fn list_snapshots(State(store): State<Shared>, RawQuery(query): RawQuery) -> Json<Page> {
    list(&store, Kind::Snapshot, query)
}

async fn create_volume(
    State(store): State<Shared>,
    Json(new): Json<NewVolume>,
) -> Answer<impl IntoResponse> {
    let volume = store
        .lock()
        .create_volume(&new.name, new.bytes, new.snapshot)?;
    Ok((StatusCode::CREATED, Json(volume)))
}

async fn create_snapshot(
    State(store): State<Shared>,
    Json(new): Json<NewSnapshot>,
) -> Answer<impl IntoResponse> {
    let snapshot = store.lock().create_snapshot(&new.name, &new.volume)?;
    Ok((StatusCode::CREATED, Json(snapshot)))
}

async fn get_volume(
    State(store): State<Shared>,
    Path(id): Path<String>,
) -> Answer<impl IntoResponse> {
    store.lock().get(Kind::Volume, &id).map(Json)
}

async fn get_snapshot(
    State(store): State<Shared>,
    Path(id): Path<String>,
) -> Answer<impl IntoResponse> {
    store.lock().get(Kind::Snapshot, &id).map(Json)
}

async fn grow(
    State(store): State<Shared>,
    Path(id): Path<String>,
    Json(size): Json<Size>,
) -> Answer<impl IntoResponse> {
    store.lock().grow(&id, size.bytes).map(Json)
}

async fn delete_volume(
    State(store): State<Shared>,
    Path(id): Path<String>,
) -> Answer<impl IntoResponse> {
    store.lock().delete_volume(&id)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn delete_snapshot(
    State(store): State<Shared>,
    Path(id): Path<String>,
) -> Answer<impl IntoResponse> {
    store.lock().delete_snapshot(&id)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn attach(
    State(store): State<Shared>,
    Path((id, host)): Path<(String, String)>,
    Json(mode): Json<Mode>,
) -> Answer<impl IntoResponse> {
    store.lock().attach(&id, &host, mode.readonly).map(Json)
}

async fn detach(
    State(store): State<Shared>,
    Path((id, host)): Path<(String, String)>,
) -> Answer<impl IntoResponse> {
    store.lock().detach(&id, Some(&host))?;
    Ok(StatusCode::NO_CONTENT)
}

async fn detach_all(
    State(store): State<Shared>,
    Path(id): Path<String>,
) -> Answer<impl IntoResponse> {
    store.lock().detach(&id, None)?;
    Ok(StatusCode::NO_CONTENT)
}

fn list(store: &Shared, kind: Kind, query: Option<String>) -> Json<Page> {
    let query = parameters(query.as_deref().unwrap_or_default());
    let text = |name: &str| query.get(name).map(String::as_str);
    let limit = text("limit").and_then(|it| it.parse().ok());
    let (items, more) = store.lock().list(
        kind,
        text("name"),
        text("volume"),
        text("marker").unwrap_or_default(),
        limit.unwrap_or(PAGE_ENTRIES),
    );
    let last = items.last().filter(|_| more);
    let next = last.map(|last| last.id.clone());
    Json(Page { items, next })
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

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(status, error) = self;
        (status, Json(json!({ "error": error }))).into_response()
    }
}
