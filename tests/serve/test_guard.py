"""Who is let in, and how often."""

import asyncio

import httpx
import pytest
from fastapi import FastAPI, Request

from moca.serve.guard import Guard
from moca.serve.limits import Limits, Rate
from tests.serve.conftest import files, serving

KEY = "correct-horse-battery"


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1:1", "[::1]:8000", "127.0.0.1"])
def test_names_of_this_machine(client, host):
    assert client.get("/api/model", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "10.0.0.1", "[::2]", "[x", ""]
)
def test_a_name_made_to_lead_here_is_not_let_in(client, host):
    """DNS rebinding: the page asks its own host, which has this machine's address."""
    for path in ("/", "/api/model", "/api/health"):
        answer = client.get(path, headers={"Host": host})
        assert answer.status_code == 403
        assert "answers to localhost only" in answer.json()["detail"]


def test_pages_from_elsewhere_are_not_let_in(client):
    own = str(client.base_url)
    for origin in ("https://evil.example", "null", own.replace("127.0.0.1", "localhost"), own + "0"):
        answer = client.post("/api/teach", files=files(0, 1), data={"class": "x"}, headers={"Origin": origin})
        assert answer.status_code == 403
        assert "may not use this service" in answer.json()["detail"]
    assert client.post("/api/predict", files=files(0, 1), headers={"Origin": own}).status_code == 200


def test_a_key_is_needed_for_all_that_tells_of_the_model(template):
    with serving(template, key=KEY) as client:
        wrong = ("", KEY, f"Bearer {KEY}x", "Bearer", f"Basic {KEY}", b"Bearer \xff")
        asked = (("GET", "model"), ("GET", "classes"), ("GET", "teach"), ("DELETE", "teach"), ("POST", "predict"))
        for given in wrong:
            for method, path in asked:
                answer = client.request(method, f"/api/{path}", headers={"Authorization": given})
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
                assert "needs its key" in answer.json()["detail"]
        assert [client.get(path).status_code for path in ("/", "/api/health", "/openapi.json")] == [200] * 3
        right = {"Authorization": f"Bearer {KEY}"}
        assert client.get("/api/model", headers=right).status_code == 200
        assert client.get("/api/model", headers=right | {"Host": "my.example"}).status_code == 200
        assert client.post("/api/predict", files=files(0, 1), headers=right).status_code == 200


def test_too_many_requests_are_told_when_to_come_again(template):
    with serving(template, limits=Limits(rate=0.5)) as client:
        answers = [client.get("/api/health") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        assert answers[-1].json()["detail"] == "more than 0.5 requests a second came from you; wait a little"
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 2


def test_who_is_refused_may_not_send_for_ever(monkeypatch):
    """Else a few that send a byte now and then would take all connections, without any key."""
    monkeypatch.setattr("moca.serve.guard._PATIENCE", 0.05)
    answered = []

    async def trickle():
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def send(message):
        answered.append(message)

    scope = {"type": "http", "path": "/api/teach", "method": "POST", "headers": [], "client": ("10.0.0.1", 1)}
    guard = Guard(None, Limits(), KEY)
    asyncio.run(asyncio.wait_for(guard(scope, trickle, send), 5))
    assert answered[0]["status"] == 401


def test_uploads_that_wait_for_an_answer_share_one_room():
    async def asked():
        arrived, answered = asyncio.Event(), asyncio.Event()
        app = FastAPI()

        @app.post("/")
        async def take(request: Request):
            await request.body()
            arrived.set()
            await answered.wait()

        app.add_middleware(Guard, limits=Limits(bytes=100, waiting=150, rate=0), key=KEY)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            first = asyncio.create_task(client.post("/", content=bytes(90)))
            await arrived.wait()
            large = await client.post("/", content=bytes(90))
            small = asyncio.create_task(client.post("/", content=bytes(60)))
            await asyncio.sleep(0)
            answered.set()
            others = [(await one).status_code for one in (first, small)]
            return large, [*others, (await client.post("/", content=bytes(90))).status_code]

    refused, others = asyncio.run(asyncio.wait_for(asked(), 10))
    assert (refused.status_code, refused.headers["retry-after"], others) == (503, "2", [200] * 3)
    assert "wait for an answer" in refused.json()["detail"] and "try again" in refused.json()["detail"]


def test_a_client_may_ask_at_the_rate_and_in_bursts():
    now = 0.0
    rate = Rate(2.0, lambda: now)
    assert [rate.wait("a") for _ in range(10)] == [0] * 10
    assert rate.wait("a") == pytest.approx(0.5)
    assert rate.wait("b") == 0
    now = 0.25
    assert rate.wait("a") == pytest.approx(0.25)
    now = 0.5
    assert (rate.wait("a"), rate.wait("a")) == (0, pytest.approx(0.5))
    now = 1000.0
    assert [rate.wait("a") for _ in range(11)] == [0] * 10 + [pytest.approx(0.5)]
    assert [Rate(0).wait("a") for _ in range(1000)] == [0] * 1000


def test_clients_that_went_away_are_forgotten(monkeypatch):
    monkeypatch.setattr("moca.serve.limits._CLIENTS", 10)
    now = 0.0
    rate = Rate(1.0, lambda: now)
    for client in range(100):
        now = float(client)
        rate.wait(str(client))
    assert len(rate._buckets) <= 10


def test_the_page_runs_nothing_but_itself(client):
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert "frame-ancestors 'none'" in policy
    outside = answer.text.replace("http://www.w3.org/2000/svg", "")
    assert "http://" not in outside and "https://" not in outside and "//cdn" not in outside
    assert "innerHTML" not in outside
