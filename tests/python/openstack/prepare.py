"""Creates the databases, keys and accounts of Keystone, Cinder and Nova in a directory: prepare.py PACKAGES DIRECTORY.

A test copies the directory, since migrating the databases takes longer than most tests."""

import os
import subprocess
import sys

PACKAGES, DIRECTORY = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))
PASSWORD = "admin"
# Keystone puts its own address in.
IDENTITY = "$(public_endpoint)s/v3"
KEYS = ("fernet", "credential")
# The users by which services ask Keystone and each other. Their names are their passwords, as with all users here.
SERVICE_USERS, SERVICE_PROJECT, SERVICE_ROLES = ("cinder", "nova"), "service", ("admin", "service")
# The user of all tests: each test makes a project of its own.
MEMBER, MEMBER_ROLE = "demo", "member"
DOMAIN = {"id": "default"}

os.environ.update(
    OS_DATABASE__CONNECTION=f"sqlite:///{DIRECTORY}/keystone.sqlite",
    OS_FERNET_TOKENS__KEY_REPOSITORY=f"{DIRECTORY}/fernet",
    OS_CREDENTIAL__KEY_REPOSITORY=f"{DIRECTORY}/credential",
    OS_KEYSTONE_CONFIG_FILES=f"{HERE}/keystone.conf",
    # Nothing is written beside the programs.
    PYTHONDONTWRITEBYTECODE="1",
    PYTHONWARNINGS="ignore",
)


def run(program, *arguments, **environment):
    service = program.removesuffix("-manage")
    subprocess.run(
        [sys.executable, f"{PACKAGES}/bin/{program}", "--config-file", f"{HERE}/{service}.conf", *arguments],
        check=True,
        env={**os.environ, **environment},
    )


def create_keystone():
    for keys in KEYS:
        os.makedirs(f"{DIRECTORY}/{keys}", mode=0o700)
    owner = ["--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid())]
    run("keystone-manage", "db_sync")
    for keys in KEYS:
        run("keystone-manage", f"{keys}_setup", *owner)
    urls = [word for kind in ("public", "internal", "admin") for word in (f"--bootstrap-{kind}-url", IDENTITY)]
    run("keystone-manage", "bootstrap", "--bootstrap-password", PASSWORD, "--bootstrap-region-id", "lab", *urls)


def create_accounts():
    # Keystone reads the command line too.
    del sys.argv[1:]
    from keystone.wsgi.api import application
    from werkzeug.test import Client

    client = Client(application)

    def call(method, path, token=None, **body):
        headers = {"X-Auth-Token": token} if token else {}
        answer = client.open(f"/v3{path}", method=method, headers=headers, json=body or None)
        if answer.status_code >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {answer.text}")
        return answer

    administrator = {"name": "admin", "domain": DOMAIN, "password": PASSWORD}
    identity = {"methods": ["password"], "password": {"user": administrator}}
    scope = {"project": {"name": "admin", "domain": DOMAIN}}
    token = call("POST", "/auth/tokens", auth={"identity": identity, "scope": scope}).headers["X-Subject-Token"]
    roles = {role["name"]: role["id"] for role in call("GET", "/roles", token).json["roles"]}

    def create_user(name):
        user = {"name": name, "password": name, "domain_id": "default"}
        return call("POST", "/users", token, user=user).json["user"]["id"]

    project = {"name": SERVICE_PROJECT, "domain_id": "default"}
    project_id = call("POST", "/projects", token, project=project).json["project"]["id"]
    for user in SERVICE_USERS:
        user_id = create_user(user)
        for role in SERVICE_ROLES:
            call("PUT", f"/projects/{project_id}/users/{user_id}/roles/{roles[role]}", token)
    in_all_projects = f"/OS-INHERIT/domains/default/users/{create_user(MEMBER)}/roles/{roles[MEMBER_ROLE]}/inherited_to_projects"
    call("PUT", in_all_projects, token)


def create_cinder():
    connection = {"OS_DATABASE__CONNECTION": f"sqlite:///{DIRECTORY}/cinder.sqlite"}
    run("cinder-manage", "db", "sync", **connection)
    subprocess.run([sys.executable, f"{HERE}/prepare_types.py"], check=True, env={**os.environ, **connection})


def create_nova():
    connections = {
        "OS_DATABASE__CONNECTION": f"sqlite:///{DIRECTORY}/nova.sqlite",
        "OS_API_DATABASE__CONNECTION": f"sqlite:///{DIRECTORY}/nova-api.sqlite",
        "OS_PLACEMENT_DATABASE__CONNECTION": f"sqlite:///{DIRECTORY}/placement.sqlite",
    }
    program = [sys.executable, f"{HERE}/prepare_nova.py", f"{HERE}/nova.conf"]
    subprocess.run(program, check=True, env={**os.environ, **connections})


create_keystone()
create_accounts()
create_cinder()
create_nova()
